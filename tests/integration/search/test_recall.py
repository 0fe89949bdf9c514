"""Recalling messages: the caller's only, bounded as asked, each with its place and its turn's openings."""

from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.parts import part_text
from convmemory.conversations.models import Conversation
from convmemory.core.errors import EmbedderUnavailable, InvalidInput, NotFound, SwitchedOff
from convmemory.embeddings.models import EmbeddingSpace
from memory.context import build_memory_context
from memory.recall import RecallQuery, recall
from search.adapters.conversations import index_conversation
from search.retrieval.retriever import FEW_WORDS_RELEVANCE
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says

pytestmark = pytest.mark.django_db

PAIRS = [
    ("How long do I boil an egg? I like it soft.", "Sure, here is how. Six minutes is right for a soft egg."),
    ("Which paint holds on a rusty gate?", "Use a metal primer first. Then two coats of enamel."),
    ("And what do I feed a tortoise in winter?", "A tortoise sleeps in winter. It eats nothing then."),
]


def indexed(owner: Any, pairs: Any = PAIRS, **values: Any) -> Conversation:
    conversation = make_conversation(owner, exchange(*pairs), **values)
    index_conversation(conversation_id=conversation.pk)
    return conversation


def test_best_message_comes_first_with_its_place_passages_and_openings() -> None:
    owner = make_user()
    conversation = indexed(owner, title="House")
    first = recall(
        caller=Caller.of(owner), query=RecallQuery("how many minutes for a soft egg", threshold=0.2)
    ).messages[0]
    assert (first.conversation_id, first.title, first.turn_number) == (conversation.pk, "House", 0)
    assert first.url == f"/conversations/{conversation.pk}?turn=0"
    assert first.question_opening
    assert first.answer_opening
    assert first.question_opening.passage.text.startswith("How long do I boil an egg?")
    assert first.answer_opening.passage.text.startswith("Sure, here is how.")
    assert first.similarity == max(passage.similarity or 0.0 for passage in first.passages)
    message = conversation.messages.get(pk=first.message_id)
    assert message.position == first.position
    for passage in first.passages:
        assert part_text(message.typed_parts[passage.part_index])[passage.start : passage.end] == passage.text


OTHERS = [
    ("How deep do I plant tulips?", "Three times as deep as the bulb is high."),
    ("My rice sticks to the pot.", "Rinse it until the water is clear, and let it rest for ten minutes."),
    ("Which tram goes to the harbour?", "Line 7, from the square; it runs until midnight."),
    ("How do I say good evening in Finnish?", "Hyvää iltaa."),
    ("The printer pulls two sheets at once.", "Clean the rollers with a damp cloth."),
    ("What is the tip in a restaurant in Prague?", "Ten percent, rounded up."),
    ("Does the passport office open on Saturdays?", "No, from Monday to Friday, eight to four."),
    ("Who painted the ceiling of the town hall?", "A local, in 1911; his name is on the plaque."),
    ("How long does a wool jumper take to dry?", "Two days, lying flat."),
    ("Can I freeze soft cheese?", "It crumbles afterwards; use it for cooking."),
    ("The dog eats grass.", "Often harmless; see a vet if it lasts."),
    ("Which glue for a broken cup?", "Two-part epoxy, and no dishwasher afterwards."),
    ("What does the red light on the router mean?", "It has no line to the provider."),
    ("How do I fold a fitted sheet?", "Tuck the corners into each other."),
    ("When does the library close?", "At six, on Thursdays at eight."),
    ("Which bird sings at four in the morning?", "The redstart, then the blackbird."),
    ("How many eggs for a sponge cake?", "Four for a tin of 26 centimetres."),
]


@pytest.mark.parametrize("count", [4, 17])
def test_small_archive_recalls_only_messages_that_may_answer(count: int, settings: Settings) -> None:
    settings.RECALL_MIN_RELEVANCE = 0.25
    owner = make_user()
    for pairs, title in ((OTHERS[:count], "This and that"), ([FUSE], "Van")):
        indexed(owner, pairs, title=title)
    found = recall(caller=Caller.of(owner), query=RecallQuery("which fuse protects the fan relay"))
    assert {message.title for message in found.messages} == {"Van"}
    assert found.total_found == len(found.messages) == 2


@pytest.mark.parametrize("kept", ["password", "key", "ticket", "account", "router", "library", "passport", "cheese"])
def test_two_words_of_which_no_message_has_one_are_answered_only_if_that_is_likely(
    kept: str, settings: Settings
) -> None:
    settings.RECALL_MIN_RELEVANCE = 0.25
    owner = make_user()
    indexed(owner, [*OTHERS, ("I forgot the password of the account.", "Its key and a ticket are in the drawer.")])
    for other in ("wifi", "netflix", "bank", "train", "spare", "tax"):
        query = RecallQuery(f"{other} {kept}")
        chances = [message.relevance or 0.0 for message in recall(caller=Caller.of(owner), query=query).messages]
        assert not chances or max(chances) >= FEW_WORDS_RELEVANCE, query.text
    assert recall(caller=Caller.of(owner), query=RecallQuery("wifi password", min_relevance=0.0)).messages
    assert recall(caller=Caller.of(owner), query=RecallQuery("library close")).messages


def test_recalled_conversation_of_best_message_stands_first() -> None:
    owner = make_user()
    for pairs, title in (([*OTHERS, ("Is the fan of the van loud?", "Its relay clicks.")], "Before"), ([FUSE], "Van")):
        indexed(owner, pairs, title=title)
    found = recall(caller=Caller.of(owner), query=RecallQuery("which fuse protects the fan relay of the van"))
    headings = [line for line in build_memory_context(found.messages).text.splitlines() if line.startswith('"')]
    assert headings[0].startswith('"Van"')


FUSE = ("Which fuse is that of the fan relay in the van?", "F14, with 30 amperes, protects the fan relay.")
STEPS = [
    user_says("Which nails did we buy?"),  # unanswered, so it joins the next turn
    user_says("How do I mend the fence? It leans."),
    assistant_says("I look at the plan of the garden first. It is old."),
    assistant_says("The posts are rotten below the ground.\n\n1. Set new posts of larch.\n2. Pour gravel around."),
    assistant_says("By the way, the tap drips at night."),  # too short to be what the turn came to
]


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("set new posts of larch", "The posts are rotten below the ground."),
        ("the tap drips at night", "By the way, the tap drips at night."),
        ("mend the leaning fence", "The posts are rotten below the ground."),
    ],
)
def test_passage_comes_with_its_own_question_and_answer_it_stands_in(query: str, answer: str) -> None:
    owner = make_user()
    index_conversation(conversation_id=make_conversation(owner, STEPS).pk)
    first = recall(caller=Caller.of(owner), query=RecallQuery(query, threshold=0.2)).messages[0]
    assert first.question_opening
    assert first.answer_opening
    assert first.question_opening.passage.text.startswith("How do I mend the fence?")
    assert first.answer_opening.passage.text.startswith(answer)


def test_answer_of_named_speaker_ranks_above_question() -> None:
    owner = make_user()
    talk = [
        user_says("I fed the cat and swept the yard.", name="Mara"),
        assistant_says("Good. When does your train to Lisbon leave, Mara?", name="Joel"),
        user_says("Thursday, a little past four.", name="Mara"),
        assistant_says("Then I bring you to the station with my van.", name="Joel"),
        user_says("You are a star. I still have to pack.", name="Mara"),
        assistant_says("Take the green bag, it is lighter.", name="Joel"),
    ]
    index_conversation(conversation_id=make_conversation(owner, talk).pk)
    found = recall(
        caller=Caller.of(owner),
        query=RecallQuery("When does Mara's train to Lisbon leave?", threshold=0.0, min_relevance=0.0),
    )
    assert found.messages[0].position == 2


def test_context_keeps_line_breaks_of_what_was_said() -> None:
    owner = make_user()
    index_conversation(conversation_id=make_conversation(owner, STEPS).pk)
    found = recall(
        caller=Caller.of(owner),
        query=RecallQuery("set new posts of larch and pour gravel around", threshold=0.2, top_k=1),
    )
    assert "\n| 1. Set new posts of larch.\n| 2. Pour gravel around." in build_memory_context(found.messages).text


def test_only_callers_messages_come_back() -> None:
    owner, stranger = make_user(), make_user()
    own, foreign = indexed(owner), indexed(stranger)
    for query in ("soft egg", "paint for a rusty gate"):
        found = recall(caller=Caller.of(owner), query=RecallQuery(query, threshold=0, top_k=50)).messages
        assert {message.conversation_id for message in found} == {own.pk}
    for number in (foreign.pk, foreign.pk + 1000):
        with pytest.raises(NotFound, match=f"There is no conversation {number}"):
            recall(caller=Caller.of(owner), query=RecallQuery("soft egg", conversation_id=number))


def test_recall_without_caller_is_empty() -> None:
    indexed(make_user())
    found = recall(caller=None, query=RecallQuery("soft egg"))
    assert found.messages == ()
    assert found.reason == "no_caller"


def test_conversation_bounds_what_is_recalled_and_may_be_archived() -> None:
    owner = make_user()
    one, other = indexed(owner), indexed(owner)
    ingest.change_conversation(
        caller=Caller.of(owner), conversation_id=other.pk, values={"archived_at": other.created_at}
    )
    for conversation in (one, other):
        found = recall(
            caller=Caller.of(owner),
            query=RecallQuery("soft egg", threshold=0, top_k=50, conversation_id=conversation.pk),
        )
        assert {message.conversation_id for message in found.messages} == {conversation.pk}
    everywhere = recall(caller=Caller.of(owner), query=RecallQuery("soft egg", threshold=0, top_k=50))
    assert {message.conversation_id for message in everywhere.messages} == {one.pk}


def test_positions_bound_with_both_ends_left_out() -> None:
    owner = make_user()
    conversation = indexed(owner)

    def positions(**bounds: Any) -> set[int]:
        found = recall(
            caller=Caller.of(owner),
            query=RecallQuery("egg gate tortoise", threshold=0, top_k=50, conversation_id=conversation.pk, **bounds),
        )
        return {message.position for message in found.messages}

    assert positions() == {0, 1, 2, 3, 4, 5}
    assert positions(before_position=3) == {0, 1, 2}
    assert positions(after_position=3) == {4, 5}
    assert positions(after_position=0, before_position=3) == {1, 2}
    assert positions(after_position=3, before_position=3) == set()
    assert positions(after_position=10**12) == set()
    with pytest.raises(InvalidInput, match="within one conversation"):
        recall(caller=Caller.of(owner), query=RecallQuery("egg", before_position=3))


def test_scope_threshold_and_top_k_bound_messages() -> None:
    owner = make_user()
    indexed(owner)
    spoken = recall(
        caller=Caller.of(owner), query=RecallQuery("soft egg", threshold=0, scope=["assistant"], top_k=50)
    ).messages
    assert {message.role for message in spoken} == {"assistant"}
    assert len(recall(caller=Caller.of(owner), query=RecallQuery("soft egg", threshold=0, top_k=2)).messages) == 2
    near = recall(caller=Caller.of(owner), query=RecallQuery("soft egg", threshold=0.3, top_k=50)).messages
    assert near
    assert all(message.similarity and message.similarity >= 0.3 for message in near)


@pytest.mark.parametrize(
    "arguments",
    [{"top_k": 0}, {"top_k": 10_000}, {"threshold": -0.1}, {"threshold": 1.5}, {"text": "x" * 10_001}, {"text": " "},
     {"scope": ["dreams"]}],
)  # fmt: skip
def test_bad_arguments_are_explained(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        recall(caller=Caller.of(make_user()), query=RecallQuery(**({"text": "soft egg"} | arguments)))


def test_recall_while_memory_is_off_is_refused(settings: Any) -> None:
    settings.CONVERSATION_MEMORY_ENABLED = False
    with pytest.raises(SwitchedOff, match="CONVERSATION_MEMORY_ENABLED"):
        recall(caller=Caller.of(make_user()), query=RecallQuery("soft egg"))


@pytest.mark.parametrize(
    "missing", ["search.retrieval.dense.query_embedding", "search.retrieval.prepared.active_space"]
)
def test_recall_without_embedder_uses_words_and_adds_note(missing: str) -> None:
    owner = make_user()
    indexed(owner)
    if missing.endswith("active_space"):
        EmbeddingSpace.objects.update(is_active=False)  # there is none yet, and its model cannot be had
    with patch(missing, side_effect=EmbedderUnavailable("no model")):
        found = recall(caller=Caller.of(owner), query=RecallQuery("metal primer for a gate"))
        best = found.messages[0].message_id
        others = recall(
            caller=Caller.of(owner), query=RecallQuery("metal primer for a gate", alive_message_ids=[best])
        ).messages
    assert [message.turn_number for message in others] == [1]
    assert others[0].message_id != best
    assert found.messages[0].turn_number == 1
    assert found.messages[0].question_opening
    assert any("no model" in note for note in found.notes)


def test_recall_asks_database_fixed_number_of_times() -> None:
    owner = make_user()
    counts = []
    for _ in range(2):
        for _ in range(3):
            indexed(owner)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert (
                len(recall(caller=Caller.of(owner), query=RecallQuery("soft egg", threshold=0, top_k=20)).messages) > 5
            )
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 18
