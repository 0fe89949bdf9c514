"""Finding turns: modes, scopes, filters, pages of results, and the caller's own data only."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from convmemory.core.errors import EmbedderUnavailable, InvalidInput
from search.adapters.conversations import index_conversation
from search.reasons import TOOLS, Reason
from search.searching import MODES, SearchQuery, SearchResults, search
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db

KITCHEN = [
    ("how long do I boil an egg?", "Seven minutes for a soft one."),
    ("my sourdough stays flat", "The starter is too cold; keep it at 26 degrees."),
    ("which knife for bread?", "A serrated one."),
]


def indexed(owner: User, messages: list[MessageDraft], **values: Any) -> Conversation:
    conversation = make_conversation(owner, messages, **values)
    index_conversation(conversation_id=conversation.pk)
    return conversation


def find(owner: User | None, text: str, cursor: str = "", **values: Any) -> SearchResults:
    return search(
        caller=Caller.of(owner).alone() if owner else None,
        query=SearchQuery(text=text, **{"has_operators": True, **values}),
        cursor=cursor,
    )


def turns(results: SearchResults) -> list[int]:
    return [hit.number for hit in results.hits]


@pytest.mark.parametrize("mode", MODES)
def test_right_turn_comes_first_in_every_mode(mode: str) -> None:
    owner = make_user()
    conversation = indexed(owner, exchange(*KITCHEN), title="Kitchen", agent="chef")
    hit = find(owner, "sourdough starter too cold", mode=mode).hits[0]
    assert (hit.object_id, hit.number) == (conversation.pk, 1)
    assert hit.url == f"/conversations/{conversation.pk}?turn=1"
    assert (hit.title, hit.agent, hit.heading) == ("Kitchen", "chef", "my sourdough stays flat")
    assert "starter" in hit.passage


def test_semantic_search_finds_turns_without_shared_words() -> None:
    owner = make_user()
    indexed(owner, exchange(*KITCHEN))
    assert turns(find(owner, "my loaf does not rise", mode="semantic"))[0] == 1
    assert find(owner, "rise loaf", mode="full_text").hits == []


@pytest.mark.parametrize("mode", MODES)
def test_two_users_with_same_texts_never_see_each_other(mode: str) -> None:
    mine, other = make_user(), make_user()
    own = indexed(mine, exchange(*KITCHEN))
    indexed(other, exchange(*KITCHEN))
    assert {hit.object_id for hit in find(mine, "sourdough starter", mode=mode).hits} == {own.pk}
    assert find(make_user(), "sourdough starter", mode=mode).hits == []


def test_without_caller_answer_is_empty() -> None:
    indexed(make_user(), exchange(*KITCHEN))
    results = find(None, "sourdough")
    assert results.hits == []
    assert results.notes


def test_filters_hold_in_every_leg_and_archived_is_left_out() -> None:
    owner = make_user()
    chef = indexed(owner, exchange(*KITCHEN), agent="chef", project="/home/kitchen", source="claude-code")
    baker = indexed(owner, exchange(*KITCHEN), agent="baker")
    gone = indexed(owner, exchange(*KITCHEN), agent="gone", archived=True)
    year = timedelta(days=365)
    cases = {
        chef.pk: [Filters(agent="chef"), Filters(project="/home/kitchen"), Filters(source="claude-code")],
        baker.pk: [Filters(agent="baker")],
        gone.pk: [Filters(archived=True)],
    }
    for mode in MODES:
        for expected, filters in cases.items():
            for one in filters:
                hits = find(owner, "sourdough starter", mode=mode, filters=one).hits
                assert {hit.object_id for hit in hits} == {expected}, (mode, one)
        now = datetime(2026, 1, 1, 12, tzinfo=UTC)
        assert {h.object_id for h in find(owner, "sourdough", mode=mode).hits} == {chef.pk, baker.pk}
        assert find(owner, "sourdough", mode=mode, filters=Filters(after=now + year)).hits == []
        assert find(owner, "sourdough", mode=mode, filters=Filters(before=now - year)).hits == []


def test_pages_follow_each_other_without_gap_or_repeat() -> None:
    owner = make_user()
    indexed(owner, exchange(*[(f"egg number {n}", f"boiled {n} minutes") for n in range(12)]))
    everything = turns(find(owner, "boiled egg", limit=50))
    assert len(everything) == 12
    seen: list[int] = []
    cursor = ""
    while True:
        page = find(owner, "boiled egg", limit=5, cursor=cursor)
        seen += turns(page)
        if page.next_cursor is None:
            break
        assert len(page.hits) == 5
        cursor = page.next_cursor
    assert seen == everything


def test_cursor_of_another_query_is_refused() -> None:
    owner = make_user()
    indexed(owner, exchange(*KITCHEN))
    cursor = find(owner, "egg knife", limit=1).next_cursor
    assert cursor
    for text, bad in (("another", cursor), ("egg knife", "rubbish"), ("egg knife", "e30")):
        with pytest.raises(InvalidInput):
            find(owner, text, cursor=bad)


def test_scopes_find_words_where_they_stand() -> None:
    owner = make_user()
    indexed(
        owner,
        [
            MessageDraft("user", (TextPart("what is in the pantry?"),)),
            MessageDraft("assistant", (ThinkingPart("perhaps quinoa"), ToolCallPart("t", "look", {"shelf": "top"}))),
            MessageDraft("user", (ToolResultPart("t", "amaranth and lentils"),)),
            MessageDraft("assistant", (TextPart("Some grains."),)),
        ],
    )
    for word, home in (("pantry", "user"), ("grains", "assistant"), ("quinoa", "thinking"), ("amaranth", "tool")):
        for scope in ("user", "assistant", "thinking", "tool"):
            hits = find(owner, word, mode="full_text", scope=frozenset({scope})).hits
            assert bool(hits) == (scope == home), (word, scope)


@pytest.mark.parametrize("late", [True, False])
def test_best_turn_comes_first_with_diversity_too(settings: Settings, late: bool) -> None:
    owner = make_user()
    indexed(owner, exchange(*KITCHEN))
    settings.LATE_INTERACTION = late
    for relevance in (0.97, 1.0):
        settings.MMR_LAMBDA = relevance
        assert turns(find(owner, "sourdough starter too cold"))[0] == 1


@pytest.mark.parametrize("mode", MODES)
def test_quoted_phrase_without_match_is_searched_as_words(mode: str) -> None:
    owner = make_user()
    indexed(owner, exchange(*KITCHEN, ("is the starter cold enough?", "It is too cold already.")))
    held = find(owner, '"too cold" starter', mode=mode)
    assert set(turns(held)) == {1, 3}
    assert held.notes == ()
    unheld = find(owner, '"cold starter too" sourdough', mode=mode)
    assert turns(unheld)[0] == 1
    assert unheld.notes == ('No turn contains "cold starter too" word for word: its words were searched for.',)
    assert 1 not in turns(find(owner, '"cold starter too" -sourdough', mode=mode))


def test_phrase_in_empty_archive_gets_no_note_but_reason() -> None:
    found = find(make_user(), '"cold starter too" sourdough')
    assert (found.notes, found.reason) == ((TOOLS[Reason.NOTHING_STORED],), Reason.NOTHING_STORED)


@pytest.mark.parametrize(
    "text",
    [
        "to be or not",
        "🥚🥚",
        "') OR 1=1 --",
        "a & b | !c <-> d:*",
        "\\'\\\\",
        "SELECT * FROM auth_user;",
        "x" * 500,
        "яйцо 数据库",
        "\x00\x00egg",
    ],
)
def test_strange_queries_are_only_text(text: str) -> None:
    owner = make_user()
    conversation = indexed(owner, exchange(*KITCHEN))
    indexed(make_user(), exchange(*KITCHEN))
    for mode in MODES:
        assert {hit.object_id for hit in find(owner, text, mode=mode).hits} <= {conversation.pk}


@pytest.mark.parametrize(
    "values",
    [{"text": "x"}, {"text": "x" * 10_001}, {"text": "  y "}, {"text": "egg", "limit": 0}, {"text": "egg", "limit": 51},
     {"text": "egg", "mode": "magic"}, {"text": "egg", "scope": frozenset({"dreams"})}],
)  # fmt: skip
def test_bad_queries_are_refused(values: Any) -> None:
    with pytest.raises(InvalidInput):
        SearchQuery(**values)


@pytest.mark.parametrize(("text", "answer"), [("猫", "猫は窓のそばで眠る。"), ("🪴", "Water the 🪴 on Sundays.")])
def test_single_character_word_is_searched(text: str, answer: str) -> None:
    owner = make_user()
    found = indexed(owner, exchange(("who needs what?", answer)))
    indexed(owner, exchange(*KITCHEN))
    assert find(owner, text).hits[0].object_id == found.pk


def test_pasted_stack_trace_is_searched_by_its_rarest_words() -> None:
    owner = make_user()
    indexed(
        owner, exchange(*[("what calls this line?", f"File line {number} in module, in call.") for number in range(9)])
    )
    found = indexed(
        owner, exchange(("why does the import fail?", "LedgerMismatch comes from settle_batch in ledger.py."))
    )
    frame = '  File "/srv/shop/module.py", line 14, in call\n    return self.call(line)\n'
    trace = "Traceback (most recent call last):\n" + frame * 12 + "LedgerMismatch: settle_batch has no open day"
    assert 900 < len(trace) < 1_100
    results = find(owner, trace)
    assert results.hits[0].object_id == found.pk
    assert "rarest words" in results.notes[0]


def test_question_of_time_alone_lists_what_was_said_then_newest_first() -> None:
    owner, now = make_user(), timezone.now()
    last_week = now - timedelta(days=now.isoweekday() + 2)
    made = []
    for days in (2, 0, 30, 1):
        said = exchange((f"question {days}?", "An answer."))
        at = last_week - timedelta(days=days)
        made.append(indexed(owner, [replace(message, created_at=at) for message in said]))
    results = find(owner, "What did we discuss last week?", limit=2)
    following = find(owner, "What did we discuss last week?", limit=2, cursor=results.next_cursor or "")
    listed = [hit.object_id for hit in (*results.hits, *following.hits)]
    assert listed == [made[1].pk, made[3].pk, made[0].pk]
    assert results.answered is True
    assert results.total == 3
    assert "the newest first" in results.notes[0]


def test_dates_wrong_way_round_are_refused() -> None:
    with pytest.raises(InvalidInput, match="swap"):
        Filters(after=datetime(2026, 2, 1, tzinfo=UTC), before=datetime(2026, 1, 1, tzinfo=UTC))


def test_search_without_embedder_uses_words_and_adds_note() -> None:
    owner = make_user()
    indexed(owner, exchange(*KITCHEN))
    with patch("search.retrieval.dense.query_embedding", side_effect=EmbedderUnavailable("the model file is missing")):
        results = find(owner, "sourdough starter")
    assert turns(results)[0] == 1
    assert "the model file is missing" in results.notes[0]


def test_deleted_conversation_is_gone() -> None:
    owner = make_user()
    conversation = indexed(owner, exchange(*KITCHEN))
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=conversation.pk)
    assert find(owner, "sourdough starter").hits == []


def test_number_of_queries_does_not_grow(django_assert_num_queries: Any) -> None:
    owner = make_user()
    for _ in range(3):
        indexed(owner, exchange(*KITCHEN))
    find(owner, "sourdough starter")  # warms the space and the query's vector
    with django_assert_num_queries(6):
        find(owner, "sourdough starter")


FILLER = " ".join(f"Sentence number {number} of a long answer about bread and flour and ovens." for number in range(60))


@pytest.mark.parametrize("mode", MODES)
def test_passage_shown_holds_quoted_phrase(mode: str) -> None:
    owner = make_user()
    indexed(owner, exchange(("tell me about bread and flour", f"{FILLER} The zinc lid rattles. {FILLER}")))
    (hit,) = find(owner, 'bread flour "zinc lid"', mode=mode).hits
    assert "zinc lid" in hit.passage
    assert "zinc lid" in [hit.passage[start:end] for start, end in hit.marks]


@pytest.mark.parametrize("mode", MODES)
def test_passage_shown_holds_rarest_word(mode: str) -> None:
    owner = make_user()
    indexed(owner, exchange(*KITCHEN))
    indexed(owner, exchange(("tell me about bread and flour", f"{FILLER} Ask Quintus first. {FILLER}")))
    hit = find(owner, "Quintus long answer about bread and flour and ovens", mode=mode).hits[0]
    assert "Quintus" in [hit.passage[start:end] for start, end in hit.marks]


@pytest.mark.parametrize(("word", "asked"), [("Quintus", "quintus"), ("Überlingen", "überlingen"), ("СИЗИФ", "сизиф")])
def test_rare_word_is_found_in_message_far_from_nearest_ones(word: str, asked: str) -> None:
    owner = make_user()
    indexed(owner, exchange(*KITCHEN))
    said = [FILLER, f"{word} knows more.", FILLER]
    indexed(
        owner, [*exchange(("tell me about bread", FILLER)), *(MessageDraft("assistant", (TextPart(s),)) for s in said)]
    )
    hit = find(owner, f"{asked} sentence number of a long answer about bread and flour and ovens").hits[0]
    assert (hit.passage, [hit.passage[start:end] for start, end in hit.marks]) == (f"{word} knows more.", [word])


@pytest.mark.parametrize("word", ["ovens/bread.toml", "long-flour", "https://ovens.example/a(b[c*d?bread=1+2"])
def test_rare_path_or_compound_is_found_far_from_nearest_messages(word: str) -> None:
    owner = make_user()
    indexed(owner, exchange(*KITCHEN))
    apart = " ".join(re.findall(r"\w+", word))
    said = [FILLER, f"{word} knows more.", f"{FILLER} {apart}."]
    indexed(
        owner, [*exchange(("tell me about bread", FILLER)), *(MessageDraft("assistant", (TextPart(s),)) for s in said)]
    )
    hit = find(owner, f"sentence number of a long answer about bread and flour and ovens {word}").hits[0]
    assert hit.passage == f"{word} knows more."
