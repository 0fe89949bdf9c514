"""Messages outside of turns are found by their words and their meaning, and their status is right."""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest, responses
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolResultPart
from convmemory.conversations.models import Conversation, Message
from memory.models import MessageEmbedding
from memory.recall import RecallQuery, recall
from memory.records import memory_stats
from search.adapters.conversations import ConversationAdapter, index_conversation
from search.indexing.status import index_status
from search.indexing.sweeping import reconcile_sources
from search.models import Item, ItemEmbedding, PassageBlock
from search.query import SearchQuery
from search.results.hits import Hit
from search.searching import search
from tests.factories import assistant_says, make_conversation, make_user, user_says
from tests.support.api import signed_in
from tests.support.passages import stored_passages

pytestmark = pytest.mark.django_db

PROMPT = MessageDraft("system", (TextPart("You are Wilma, a guide to alpine huts. Answer in rhymes."),))
GREETING = assistant_says("Welcome to the observatory of Tycho!")
TURN = [user_says("Which lens do I need?"), assistant_says("A wide one, of glass.")]
OPEN = user_says("And where do I mount the quadrant?")


@pytest.fixture
def owner() -> User:
    return make_user()


def indexed(owner: User, *drafts: MessageDraft) -> Conversation:
    conversation = make_conversation(owner, drafts)
    index_conversation(conversation_id=conversation.pk)
    return conversation


def hits(owner: User, query: str, **values: Any) -> list[Hit]:
    return list(search(caller=Caller.of(owner), query=SearchQuery(text=query, **values)).hits)


@pytest.mark.parametrize("mode", ["hybrid", "full_text", "semantic"])
@pytest.mark.parametrize(
    ("query", "passage"),
    [
        ("observatory of Tycho", "Welcome to the observatory of Tycho!"),
        ("guide to alpine huts", "You are Wilma, a guide to alpine huts."),
        ("mount the quadrant", "And where do I mount the quadrant?"),
    ],
)
def test_messages_outside_of_turns_are_found(owner: User, query: str, passage: str, mode: str) -> None:
    conversation = indexed(owner, PROMPT, GREETING, *TURN, OPEN)
    best = hits(owner, query, mode=mode)[0]
    assert best.passage.startswith(passage)
    assert best.url == f"/conversations/{conversation.pk}?turn=0"
    assert best.heading == "Which lens do I need?"


@pytest.mark.parametrize("drafts", [[PROMPT], [GREETING], [OPEN], [PROMPT, GREETING, OPEN]])
def test_conversation_without_any_turn_is_found_and_opens(owner: User, drafts: list[MessageDraft]) -> None:
    conversation = indexed(owner, *drafts)
    (hit,) = hits(owner, "quadrant of Tycho in alpine huts")
    assert (hit.object_id, hit.number) == (conversation.pk, 0)
    client = signed_in(owner)
    page = client.get(hit.url).content.decode()
    assert hit.passage[:12] in page
    assert "no turn" not in page.lower()


def test_superseded_messages_are_not_found(owner: User) -> None:
    indexed(owner, *TURN, replace(OPEN, superseded=True))
    assert not hits(owner, "mount the quadrant", mode="full_text")
    assert hits(owner, "lens of glass", mode="full_text")


def test_system_prompts_are_looked_into_where_both_sides_are(owner: User) -> None:
    indexed(owner, PROMPT, *TURN)
    assert hits(owner, "alpine huts", mode="full_text")
    for scope in ("user", "assistant", "thinking", "tool"):
        assert not hits(owner, "alpine huts", mode="full_text", scope=frozenset({scope}))
    assert PassageBlock.Kind.SYSTEM in {one.kind for one in stored_passages()}


def test_system_prompt_ranks_no_turn_and_is_shown_only_for_word_that_nothing_said_contains(owner: User) -> None:
    rules = MessageDraft("system", (TextPart("Run the linter before each commit. Never skip the type checker."),))
    indexed(owner, rules, user_says("Rename the barn door."), assistant_says("It is called gate now."))
    linted = indexed(owner, user_says("What checks the code?"), assistant_says("A linter checks the code style."))
    first, second = hits(owner, "which linter runs before a commit", mode="semantic")
    assert (first.object_id, second.passage) == (linted.pk, "Run the linter before each commit.")
    assert hits(owner, "how is the door of the barn called")[0].passage == "Rename the barn door."


@pytest.mark.parametrize("is_indexed", [True, False], ids=["by meaning", "by words"])
def test_system_prompts_are_not_recalled_and_have_no_record(owner: User, is_indexed: bool) -> None:
    conversation = make_conversation(owner, [PROMPT, GREETING, *TURN])
    if is_indexed:
        index_conversation(conversation_id=conversation.pk)
    found = recall(caller=Caller.of(owner), query=RecallQuery("Wilma, a guide to alpine huts", min_relevance=0))
    said = set(conversation.messages.exclude(role="system").values_list("pk", flat=True))
    assert {message.message_id for message in found.messages} == said
    assert set(MessageEmbedding.objects.values_list("message_id", flat=True)) == (said if is_indexed else set())


def test_messages_outside_of_turns_do_not_change_vectors_or_lengths(owner: User) -> None:
    indexed(owner, PROMPT, GREETING, *TURN, OPEN)
    indexed(owner, *TURN)
    vectors = [list(row.embedding) for row in ItemEmbedding.objects.all()]
    assert vectors[0] == vectors[1]
    with_prompt, without = (indexed(owner, *drafts, *TURN) for drafts in ([PROMPT], []))
    lengths = [Item.objects.get(source__object_id=each.pk).length for each in (with_prompt, without)]
    assert lengths[0] == lengths[1]


def test_reminders_within_turns_stay_outside_of_index(owner: User) -> None:
    reminder = MessageDraft("system", (TextPart("Mind the badger."),), injected=True)
    indexed(owner, TURN[0], reminder, TURN[1])
    assert not hits(owner, "badger", mode="full_text")


def test_question_moves_into_its_own_turn_once_it_is_answered(owner: User) -> None:
    conversation = indexed(owner, *TURN, OPEN)
    assert Item.objects.count() == 1
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[assistant_says("On the wall.")]
    )
    assert index_conversation(conversation_id=conversation.pk).finished
    best = hits(owner, "mount the quadrant")[0]
    assert (best.number, best.heading) == (1, "And where do I mount the quadrant?")
    assert [one.kind for one in stored_passages() if one.item_number == 0] == [0, 1]


def test_question_whose_answer_never_came_is_found(owner: User, django_capture_on_commit_callbacks: Any) -> None:
    conversation = indexed(owner, *TURN)
    responses.begin_response(caller=Caller.of(owner), conversation_id=conversation.pk, question=OPEN)
    responses.finish_response(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[], failed=True)
    index_conversation(conversation_id=conversation.pk)
    assert hits(owner, "mount the quadrant")[0].passage == "And where do I mount the quadrant?"


def test_messages_outside_of_turns_count_as_embedded(owner: User) -> None:
    conversation = indexed(owner, PROMPT, GREETING, *TURN, OPEN)
    stats = memory_stats(caller=Caller.of(owner), conversation_id=conversation.pk)
    assert (stats.embedded, stats.pending, stats.failed) == (4, 0, 0)
    status = index_status(caller=Caller.of(owner))
    assert (status.turns, status.embedded_turns, status.pending, status.messages) == (1, 1, 0, 5)
    assert reconcile_sources() == 0


@pytest.mark.parametrize("query", ["observatory of Tycho", "mount the quadrant"])
def test_recall_finds_messages_outside_of_turns(owner: User, query: str) -> None:
    conversation = indexed(owner, PROMPT, GREETING, *TURN, OPEN)
    best = recall(caller=Caller.of(owner), query=RecallQuery(query, threshold=0.2)).messages[0]
    assert query in best.passages[0].text
    assert best.conversation_id == conversation.pk
    assert (best.question_opening, best.answer_opening, best.earlier) == (None, None, ()), "it belongs to no turn"


def test_words_in_middle_of_long_output_are_found(owner: User) -> None:
    lines = [f"{number} tests passed" for number in range(3_000)]
    lines[1_500] = "pangolin failed"
    output = MessageDraft("tool", (ToolResultPart("t", "\n".join(lines)),))
    indexed(owner, TURN[0], output, TURN[1])
    assert hits(owner, "pangolin", scope=frozenset({"tool"}), mode="full_text")


@pytest.mark.parametrize("drafts", [TURN, [GREETING, *TURN, OPEN]])
def test_messages_without_turn_are_read_with_others_in_one_query(
    owner: User, drafts: list[MessageDraft], django_assert_num_queries: Any
) -> None:
    conversation = make_conversation(owner, drafts)
    numbers = list(Message.objects.order_by("position").values_list("pk", flat=True))
    with django_assert_num_queries(1):
        elements = ConversationAdapter().read_elements(owner.pk, numbers)
    assert sorted(elements) == numbers
    last = conversation.turn_count - 1
    assert [elements[number].item_number for number in numbers] == [last] * len(numbers)


@pytest.mark.parametrize(
    ("stems", "wanted"),
    [([], {0, 1, 2}), (["quintu"], {0}), (["überling", "quintu"], {0, 1}), (["zinc"], set())],
)
def test_messages_without_stems_are_not_read_and_those_of_others_never(
    owner: User, stems: list[str], wanted: set[int]
) -> None:
    make_conversation(owner, [user_says("Ask QUINTUS."), assistant_says("In Überlingen."), user_says("About bread.")])
    numbers = list(Message.objects.order_by("position").values_list("pk", flat=True))
    found = ConversationAdapter().read_elements_with(owner.pk, numbers, stems)
    assert set(found) == {numbers[place] for place in wanted}
    assert ConversationAdapter().read_elements_with(make_user().pk, numbers, stems) == {}
