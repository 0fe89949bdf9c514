"""Outcomes are stored with each change of a turn; a worker makes those of conversations of an older version."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest, message_store
from convmemory.conversations.messages.numbering import renew_outcomes
from convmemory.conversations.models import Conversation, Message
from tests.factories import assistant_says, exchange, make_conversation, user_says

pytestmark = pytest.mark.django_db
PUMP = ("Which pump fits?", "The pump of the old well fits, type 40.")


def outcomes_of(conversation: Conversation) -> list[dict[str, Any] | None]:
    rows = Message.objects.filter(conversation=conversation, is_real_user=True).order_by("position")
    return list(rows.values_list("outcome", flat=True))


def test_each_change_of_a_turn_renews_its_outcome(owner: User) -> None:
    made = make_conversation(owner, exchange(PUMP))
    assert outcomes_of(made) == [{"conclusion": PUMP[1]}]
    more = [assistant_says("No: type 41, I read the plate again and it says so."), user_says("And the hose?")]
    ingest.append_messages(caller=Caller.of(owner), conversation_id=made.pk, drafts=more)
    first, second = outcomes_of(made)
    assert first == {"conclusion": "No: type 41, I read the plate again and it says so."}
    assert second is None  # its turn is not complete


def test_messages_of_new_conversation_are_written_once_with_their_outcomes(owner: User) -> None:
    def updated() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT n_tup_upd FROM pg_stat_xact_user_tables WHERE relname = 'conversations_message'")
            return int(cursor.fetchone()[0])

    before = updated()
    made = make_conversation(owner, exchange(PUMP, ("And the hose?", "The blue one, of two metres.")))
    assert updated() == before
    assert outcomes_of(made) == [{"conclusion": PUMP[1]}, {"conclusion": "The blue one, of two metres."}]


@pytest.mark.parametrize("size", range(1, 8))
def test_outcomes_of_turns_in_several_batches_are_those_of_whole_turns(
    owner: User, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(message_store, "BATCH", size)
    drafts = [
        user_says("Which pump"),  # cut off
        user_says("Which pump fits?"),
        assistant_says("I will look at the plate of the old pump first."),
        assistant_says("The old one fits, type 39.", superseded=True),
        assistant_says("The pump of the old well fits: its plate says type 40, as the drawing does."),
        user_says("And the hose?"),
        assistant_says("The blue one, of two metres."),
    ]
    outcomes = Message.objects.filter(conversation=make_conversation(owner, drafts), outcome__isnull=False)
    assert dict(outcomes.values_list("position", "outcome")) == {
        0: {"conclusion": "The pump of the old well fits: its plate says type 40, as the drawing does."},
        5: {"conclusion": "The blue one, of two metres."},
    }


def test_worker_makes_outcomes_of_conversations_of_older_version(owner: User) -> None:
    made = make_conversation(owner, exchange(PUMP))
    Message.objects.filter(conversation=made).update(outcome=None)
    assert renew_outcomes(limit=10) == 0
    Conversation.objects.filter(pk=made.pk).update(outcome_version=None)
    assert renew_outcomes(limit=10) == 1
    assert outcomes_of(made) == [{"conclusion": PUMP[1]}]
    assert renew_outcomes(limit=10) == 0


def test_worker_makes_conclusions_whose_names_lack_underscores(owner: User) -> None:
    answer = "The pump is read from `src/__init__.py` at the start, and from nowhere else."
    made = make_conversation(owner, exchange((PUMP[0], answer)))
    Message.objects.filter(conversation=made, outcome__isnull=False).update(outcome={"conclusion": "src/init.py"})
    Conversation.objects.filter(pk=made.pk).update(outcome_version=5)
    assert renew_outcomes(limit=10) == 1
    assert outcomes_of(made) == [{"conclusion": answer}]
