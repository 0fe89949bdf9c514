"""The plan of a search in event logs, under row-level security: `@@` must not lose its index to a policy."""

import pytest
from django.db import connection

from convmemory.core.sql import load_sql
from tests.factories import exchange, make_conversation, make_user
from tests.support.plans import plan_of

pytestmark = pytest.mark.django_db(transaction=True)

EVENTS = 20_000
FILL = """
INSERT INTO conversations_event (owner_id, conversation_id, line_number, type, level, tool, payload, words)
SELECT %s, %s, n, 'log', '', '', '{}', to_tsvector('simple', 'started worker' || n) FROM generate_series(1, %s) AS n
"""


def test_words_of_events_are_looked_up_in_their_index_by_their_owner() -> None:
    owners = make_user(), make_user()
    conversations = [make_conversation(owner, exchange(("what runs?", "a worker"))) for owner in owners]
    with connection.cursor() as cursor:
        for conversation in conversations:
            cursor.execute(FILL, [conversation.archive_id, conversation.pk, EVENTS])
        cursor.execute("ANALYZE conversations_event")
    statement = load_sql("convmemory.conversations", "matching_events")
    for owner in owners:
        plan = plan_of(statement, ["'worker7'", f"'owner {owner.pk}'"], [], archive_id=owner.pk)
        assert "Bitmap Index Scan on event_owned_words" in plan, plan
