"""What people wrote outlives the migrations, and gets the columns that later versions look it up by."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from convmemory.conversations.models import Message, MessageSource
from tests.factories import exchange, make_conversation, make_user, user_says

BEFORE = [("conversations", "0001_conversations")]


def migrate(targets: list[tuple[str, str]]) -> None:
    MigrationExecutor(connection).migrate(targets)


def newest() -> list[tuple[str, str]]:
    leaves: list[tuple[str, str]] = MigrationExecutor(connection).loader.graph.leaf_nodes()
    return leaves


@pytest.mark.django_db(transaction=True)
def test_stored_messages_get_the_owner_of_their_conversation() -> None:
    users = [make_user("ada"), make_user("eve")]
    for user in users:
        raw = user_says("kept", source_key="raw", raw=b"raw")
        make_conversation(user, [*exchange(("question", "answer")), raw])
    owners = {user.pk for user in users}
    before = list(Message.objects.order_by("pk").values("pk", "conversation_id", "position", "parts", "content_hash"))
    try:
        migrate(BEFORE)
        with connection.cursor() as cursor:
            columns = [c.name for c in connection.introspection.get_table_description(cursor, Message._meta.db_table)]
        assert "owner_id" not in columns
    finally:
        migrate(newest())
    stored = Message.objects.order_by("pk")
    assert list(stored.values("pk", "conversation_id", "position", "parts", "content_hash")) == before
    assert {(m.owner_id, m.conversation.owner_id) for m in stored} == {(owner, owner) for owner in owners}
    sources = MessageSource.objects.select_related("message")
    assert {(source.owner_id, source.message.owner_id) for source in sources} == {(owner, owner) for owner in owners}
