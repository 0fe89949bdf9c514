from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memory', '0007_sign_blocks'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveIndex(model_name='passage', name='passage_owner_signs'),
        migrations.RemoveField(model_name='passage', name='signs'),
        migrations.AddIndex(
            model_name='passage',
            index=models.Index(fields=['owner', 'space', 'kind'], name='passage_owner'),
        ),
    ]
