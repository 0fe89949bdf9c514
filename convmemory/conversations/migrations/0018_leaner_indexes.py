"""No index holds entries that no query asks for, or repeats how another one begins.

A conversation's messages are found in the index of turns, an archive's conversations in that of the newest. `has:` and
`model:` ask for messages with such a content or a model alone. Writers wait for moments; a run that was killed repeats.
"""

import django.db.models.deletion
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("accounts", "0007_invitations_by_link"), ("conversations", "0017_conclusions_read_anew")]

    operations = [
        RemoveIndexConcurrently("message", "message_turn"),
        AddIndexConcurrently(
            "message", models.Index(fields=["conversation", "archive", "turn_number"], name="message_turn")
        ),
        RemoveIndexConcurrently("message", "message_contents"),
        AddIndexConcurrently(
            "message",
            models.Index(
                condition=Q(contents__gt=0), fields=["archive", "contents", "conversation"], name="message_contents"
            ),
        ),
        RemoveIndexConcurrently("message", "message_model"),
        AddIndexConcurrently(
            "message",
            models.Index(condition=Q(model__gt=""), fields=["archive", "model", "conversation"], name="message_model"),
        ),
        migrations.AlterField(
            "message",
            "conversation",
            models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="conversations.conversation",
            ),
        ),
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS conversation_parent", migrations.RunSQL.noop),
        AddIndexConcurrently(
            "conversation",
            models.Index(condition=Q(parent__isnull=False), fields=["parent"], name="conversation_parent"),
        ),
        migrations.AlterField(
            "conversation",
            "parent",
            models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="children",
                to="conversations.conversation",
            ),
        ),
        migrations.AlterField(
            "conversation",
            "archive",
            models.ForeignKey(
                db_column="owner_id",
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="conversations",
                to="accounts.archive",
            ),
        ),
    ]
