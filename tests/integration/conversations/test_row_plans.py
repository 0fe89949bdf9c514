"""Rows are looked up by indexes that have more columns or fewer rows than the query asks for."""

import pytest
from django.db import connection

from tests.factories import exchange, make_conversation, make_user
from tests.support.plans import plan_of

pytestmark = pytest.mark.django_db(transaction=True)

CONVERSATIONS, TURNS = 15, 10
OF_TURN = "SELECT id FROM conversations_message WHERE owner_id = %s AND conversation_id = %s AND turn_number = 3"

BY_INDEX = {
    "SELECT id FROM conversations_message WHERE conversation_id = $1": "message_turn",
    "SELECT id FROM conversations_conversation WHERE owner_id = $1 AND title <> ''": "conversation_recent",
    "SELECT 1 FROM conversations_conversation WHERE parent_id = $1 FOR KEY SHARE": "conversation_parent",
}


@pytest.fixture
def owner_and_conversation() -> tuple[int, int]:
    for owner in (make_user(), make_user()):
        for _ in range(CONVERSATIONS):
            made = make_conversation(owner, exchange(*[("and then?", "then this.")] * TURNS))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE conversations_message, conversations_conversation")
    return owner.pk, made.pk


def maintenance_plan(statement: str, *parameters: int) -> str:
    """Return the plan of a statement that no policy narrows to an owner, as prepared for any values."""
    with connection.cursor() as cursor:
        cursor.execute("SET plan_cache_mode = force_generic_plan")
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(f"PREPARE asked AS {statement}")
        cursor.execute(f"EXPLAIN EXECUTE asked ({', '.join(map(str, parameters))})")
        plan = "\n".join(row[0] for row in cursor.fetchall())
        cursor.execute("DEALLOCATE asked")
        cursor.execute("RESET plan_cache_mode")
        cursor.execute("RESET enable_seqscan")
    return plan


def test_messages_of_turn_are_read_from_index_of_turns(owner_and_conversation: tuple[int, int]) -> None:
    owner, conversation = owner_and_conversation
    plan = plan_of(OF_TURN, [owner, conversation], [], archive_id=owner)
    assert "using message_turn" in plan, plan
    condition = next(line for line in plan.splitlines() if "Index Cond" in line)
    assert all(column in condition for column in ("conversation_id", "owner_id", "turn_number"))


def test_rows_are_read_from_an_index_whatever_the_values_are(owner_and_conversation: tuple[int, int]) -> None:
    for statement, index in BY_INDEX.items():
        plan = maintenance_plan(statement, owner_and_conversation[1])
        assert index in plan, plan
