"""When conversations were put into the trash."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0007_turn_marks'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='conversation',
            name='trashed_at',
            field=models.DateTimeField(blank=True, help_text='Since then it has been in the trash.', null=True),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(condition=models.Q(('trashed_at__isnull', False)), fields=['owner', '-trashed_at'], name='conversation_trash'),
        ),
    ]
