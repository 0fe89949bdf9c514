from django.db import migrations, models

MARK_CALLS = """
UPDATE memory_passage AS p SET kind = 4
FROM conversations_message AS m
WHERE p.kind = 3 AND m.id = p.message_id AND m.parts -> p.part_index::int ->> 'type' = 'tool_call'
"""
UNMARK_CALLS = "UPDATE memory_passage SET kind = 3 WHERE kind = 4"


class Migration(migrations.Migration):
    """Passages of tool calls get a kind of their own: they are found in what was said, and among tools."""

    dependencies = [
        ('memory', '0003_records_of_what_is_embedded'),
    ]

    operations = [
        migrations.AlterField(
            model_name='passage',
            name='kind',
            field=models.PositiveSmallIntegerField(choices=[(0, 'User'), (1, 'Assistant'), (2, 'Thinking'), (3, 'Tool'), (4, 'Tool call')]),
        ),
        migrations.RunSQL(MARK_CALLS, UNMARK_CALLS),
    ]
