"""Messages, their raw sources and the lines of event logs are looked up by their owner first."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

FILL_MESSAGES = """
UPDATE conversations_message AS m
SET owner_id = c.owner_id
FROM conversations_conversation AS c
WHERE c.id = m.conversation_id AND m.owner_id IS NULL;
"""
FILL_SOURCES = """
UPDATE conversations_messagesource AS s
SET owner_id = m.owner_id
FROM conversations_message AS m
WHERE m.id = s.message_id AND s.owner_id IS NULL;
"""


def owner(*, null: bool, db_index: bool) -> models.ForeignKey:
    return models.ForeignKey(
        null=null, db_index=db_index, on_delete=django.db.models.deletion.CASCADE, related_name='+',
        to=settings.AUTH_USER_MODEL,
    )


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0002_import_jobs'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name='message',
            name='conversation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.conversation'),
        ),
        migrations.AddField('message', 'owner', owner(null=True, db_index=False)),
        migrations.RunSQL(FILL_MESSAGES, migrations.RunSQL.noop),
        migrations.AlterField('message', 'owner', owner(null=False, db_index=False)),
        migrations.AddField('messagesource', 'owner', owner(null=True, db_index=True)),
        migrations.RunSQL(FILL_SOURCES, migrations.RunSQL.noop),
        migrations.AlterField('messagesource', 'owner', owner(null=False, db_index=True)),
        migrations.RemoveIndex('message', 'message_turn'),
        migrations.AddIndex('message', models.Index(fields=['owner', 'conversation', 'turn_number'], name='message_turn')),
        migrations.RemoveConstraint('message', 'message_position_unique'),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.UniqueConstraint(deferrable=django.db.models.constraints.Deferrable['DEFERRED'], fields=('owner', 'conversation', 'position'), name='message_position_unique'),
        ),
        migrations.RemoveConstraint('message', 'message_source_key_unique'),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.UniqueConstraint(condition=models.Q(('source_key', ''), _negated=True), fields=('owner', 'conversation', 'source_key'), name='message_source_key_unique'),
        ),
        migrations.RemoveConstraint('event', 'event_line_unique'),
        migrations.AddConstraint(
            model_name='event',
            constraint=models.UniqueConstraint(fields=('owner', 'conversation', 'line_number'), name='event_line_unique'),
        ),
    ]
