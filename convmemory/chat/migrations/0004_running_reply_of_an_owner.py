from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0003_agents_switched_off'),
    ]

    operations = [
        migrations.RemoveConstraint('reply', 'reply_running_once'),
        migrations.AddConstraint(
            model_name='reply',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'running')), fields=('owner', 'conversation'), name='reply_running_once'),
        ),
    ]
