"""Conditions of the search box on messages are answered from an index, and from the owner's messages alone."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from convmemory.conversations.filters import Filters
from convmemory.conversations.names import with_known_names
from tests.factories import exchange, make_conversation, make_user
from tests.support.plans import plan_of

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGES = 5_000
FILL = """
INSERT INTO conversations_message
    (owner_id, conversation_id, position, role, is_real_user, name, model, parts, source_key, content_hash)
SELECT
    %s, %s, n, 'user', FALSE, '', CASE WHEN n % 100 = 0 THEN 'Opus 9' ELSE 'haiku' END,
    jsonb_build_array(jsonb_build_object('type', 'text', 'text', repeat('words ', 40)
        || CASE WHEN n % 50 = 0 THEN '```' WHEN n % 50 = 1 THEN 'see https://example.invalid' ELSE '' END)),
    '', '\\x00'
FROM generate_series(100, 100 + %s) AS n
"""


@pytest.mark.parametrize(
    ("token", "index"),
    [
        (("has", "code"), "message_contents"),
        (("has", "link"), "message_contents"),
        (("model", "opus"), "message_model"),
    ],
)
def test_conditions_on_messages_are_answered_from_their_index(token: tuple[str, str], index: str) -> None:
    owners = make_user(), make_user()
    conversations = [make_conversation(owner, exchange(("what runs?", "a worker"))) for owner in owners]
    with connection.cursor() as cursor:
        for conversation in conversations:
            cursor.execute(FILL.replace("% ", "%% "), [conversation.archive_id, conversation.pk, MESSAGES])
        cursor.execute("VACUUM ANALYZE conversations_message")
    for owner, conversation in zip(owners, conversations, strict=True):
        with CaptureQueriesContext(connection) as captured:
            filters = with_known_names(owner.pk, Filters(tokens=(token,)))
        assert filters.conversations == frozenset({conversation.pk})
        asked = [query["sql"] for query in captured.captured_queries if "conversations_message" in query["sql"]]
        assert asked
        for statement in asked:
            plan = plan_of(statement.replace("%", "%%"), [], [], archive_id=owner.pk)
            assert f"Only Scan using {index}" in plan, plan
            assert "parts" not in plan, plan
