"""The passage that a hit shows of a long turn: the one with the query's rarest word, in every mode."""

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.drafts import MessageDraft
from search.adapters.conversations import index_conversation
from search.searching import SearchQuery, search
from tests.factories import exchange, make_conversation

pytestmark = [pytest.mark.django_db, pytest.mark.slow]  # 700 passages are embedded
COUNT = 700
ASKED = range(40, COUNT, 60)


def long_answer() -> list[MessageDraft]:
    """Return a turn of 70,000 characters, each sentence with a word of its own."""
    lines = (
        f"Relay number {number} of the fan cabinet is protected by the fuse called xebec{number}, rated for ten amps."
        for number in range(1, COUNT + 1)
    )
    return exchange(("list the fuses of the relays in the fan cabinet", " ".join(lines)))


def test_line_of_long_turn_has_rarest_word_in_every_mode(owner: User) -> None:
    conversation = make_conversation(owner, long_answer())
    index_conversation(conversation_id=conversation.pk)
    lacking = []
    for mode in ("full_text", "hybrid", "semantic"):
        for number in ASKED:
            text = f"which relay of the fan cabinet does xebec{number} protect"
            (hit,) = search(caller=Caller.of(owner), query=SearchQuery(text=text, mode=mode)).hits
            if f"xebec{number}," not in hit.passage:
                lacking.append((mode, number))
    assert not lacking
