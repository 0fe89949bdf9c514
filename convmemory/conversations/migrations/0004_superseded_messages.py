"""Messages that their thread went on without are kept, and marked."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('conversations', '0003_owner_of_messages')]

    operations = [
        migrations.AddField(
            model_name='message',
            name='superseded',
            field=models.BooleanField(db_default=False, default=False, help_text='Its thread went on without it: it belongs to no turn.'),
        ),
    ]
