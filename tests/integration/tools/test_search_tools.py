"""Arguments of the search tools: scopes, filters, plain text, and messages that the agent sees already."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation, Message
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.tools.registry import Seen, run_tool
from convmemory.tools.searching import _answering, search_as_text
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says

pytestmark = pytest.mark.django_db

SEARCH_TOOLS = ("ConversationSearch", "search_chat_history", "conversation_recall")
MARCH, MAY = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def owner(settings: Any) -> User:
    settings.RECALL_THRESHOLD = 0.0  # whatever is allowed comes back
    return make_user()


def indexed(owner: User, drafts: list[MessageDraft], **values: Any) -> Conversation:
    made = make_conversation(owner, drafts, **values)
    index_conversation(conversation_id=made.pk)
    return made


def at(moment: datetime, question: str, answer: str) -> list[MessageDraft]:
    return [user_says(question, created_at=moment), assistant_says(answer, created_at=moment)]


def found_in(tool: str, owner: User, **arguments: Any) -> set[int]:
    """The conversations that a tool brings back."""
    answer = run_tool(tool, arguments, Caller.of(owner))
    return {row.get("conversation_id", row.get("conversationId")) for row in answer["results"]}


def test_search_shows_conclusion_where_only_question_was_found(owner: User) -> None:
    asked, said = "which glaze fits the blue stoneware bowls?", "Take celadon in two coats."
    indexed(owner, at(MAY, asked, said), title="Glazes")
    (hit,) = run_tool("search", {"query": asked}, Caller.of(owner))["results"]
    assert (hit["passage"], hit["outcome"]) == (asked, {"conclusion": said})
    assert search_as_text({"results": [hit]}).endswith(f"asked: {asked} | answer: {said}")
    (hit,) = run_tool("search", {"query": "celadon in two coats"}, Caller.of(owner))["results"]
    assert search_as_text({"results": [hit]}).endswith(f"asked: {asked} | answer: {said}")


def test_search_by_words_leaves_repeated_question_out(owner: User) -> None:
    asked = "which glaze fits the blue stoneware bowls?"
    make_conversation(owner, at(MAY, asked, "Celadon."), title="Glazes")  # not embedded, so it has no passages
    answer = run_tool("search", {"query": "blue stoneware bowls"}, Caller.of(owner))
    assert search_as_text({"results": answer["results"]}).endswith(f"asked: {asked} | answer: Celadon.")


def test_line_of_first_hit_says_what_its_turn_concluded_and_changed(owner: User) -> None:
    """The opening of the answer announces, and the conclusion stands at the end of the turn."""
    edit = ToolCallPart("1", "Edit", {"file_path": "/srv/kiln/mise.toml", "new_string": "1.25.6"})
    turn = [
        *at(MAY, "can you update the firing program in all the right places?", "I'll search for the program first."),
        MessageDraft(role="assistant", parts=(edit,)),
        MessageDraft(role="tool", parts=(ToolResultPart("1", "ok"),)),
        MessageDraft(role="assistant", parts=(TextPart("The program is 1.25.6 in both kilns now."),)),
    ]
    indexed(owner, turn, title="Kiln", project="/srv/kiln")
    answer = run_tool("search", {"query": "update the firing program in all the right places"}, Caller.of(owner))
    line, *_ = search_as_text(answer).splitlines()
    assert "I'll search" not in line
    assert line.endswith(" | answer: The program is 1.25.6 in both kilns now. | changed: mise.toml")


def test_second_hit_of_conversation_names_its_turn_alone(owner: User) -> None:
    turns = [*at(MAY, "which glaze fits the bowls?", "Celadon."), *at(MAY, "and how many coats of glaze?", "Two.")]
    indexed(owner, turns, title="Kiln", project="/srv/kiln")
    answer = run_tool("search", {"query": "coats of glaze for the bowls"}, Caller.of(owner))
    first, second = search_as_text(answer).splitlines()
    assert "conversation_id" in first
    number = answer["results"][1]["turn_number"]
    assert second.startswith(f"- turn {number} | found: ")


def test_first_line_says_what_was_asked_next(owner: User) -> None:
    turns = [
        *at(MAY, "which three glazes fit the bowls?", "Celadon, tenmoku and shino."),
        *at(MAY, "third, please", "Ok."),
    ]
    indexed(owner, turns, title="Kiln")
    answer = run_tool("search", {"query": "which glazes fit the bowls"}, Caller.of(owner))
    assert answer["results"][0]["next_question"] == "third, please"
    assert search_as_text(answer).splitlines()[0].endswith(" | then asked: third, please")


def test_less_likely_turn_is_listed_only_below_its_conversation(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convmemory.tools.searching.LEAST_LIKELY", 0)
    monkeypatch.setattr("convmemory.tools.searching.LEAST_OF_LISTED", 50)
    turns = [*at(MAY, "which glaze fits the bowls?", "Celadon."), *at(MAY, "and which glaze fits the cups?", "Shino.")]
    kiln = indexed(owner, turns, title="Kiln")
    indexed(owner, at(MAY, "which glaze fits the plates?", "Tenmoku."), title="Plates")
    answer = run_tool("search", {"query": "which glaze fits the bowls"}, Caller.of(owner))
    assert [hit["conversation_id"] for hit in answer["results"]] == [kiln.pk, kiln.pk]


def test_first_line_says_what_stands_around_the_best_sentence_of_the_answer(owner: User) -> None:
    asked = "why did the glaze run?"
    answer = "It was too hot. The cone was 10. Glaze 7 melts at cone 6.\n\nFire it at 1,222 degrees, slowly at the end."
    long = f"{answer}\n\n{'The shelf is full of pots of the other kiln. ' * 12}"
    indexed(owner, at(MAY, asked, long), title="Kiln")
    found = run_tool("search", {"query": "at which cone does glaze 7 melt"}, Caller.of(owner))
    assert "Glaze 7 melts at cone 6." in found["results"][0]["excerpt"]
    assert "1,222 degrees" in search_as_text(found)


def test_turn_that_fork_shares_is_one_hit_and_recalled_once(owner: User) -> None:
    shared = at(MAY, "how long do we keep the old glaze table after rollbacks?", "Keep the old table for 7 days.")
    for number in range(3):
        later = at(MAY, f"and what about shelf {number}?", f"Shelf {number} is full of saucers, leave it.")
        indexed(owner, [*shared, *later], title=f"Branch {number}")
    query = {"query": "how long do we keep the old glaze table"}
    answer = run_tool("search", query, Caller.of(owner))
    (hit,) = [hit for hit in answer["results"] if "old glaze table" in hit["user_question"]]
    assert hit["copies"] == 2
    assert "also in 2 other sessions; conversation_id" in search_as_text({"results": [hit]})
    assert run_tool("recall", query, Caller.of(owner))["context"].count("7 days") == 1


@pytest.fixture
def choice(owner: User) -> Conversation:
    """A turn in which the reason stands in the thinking and a figure in the tool's output."""
    answer = MessageDraft(
        role="assistant",
        parts=(
            ThinkingPart("DuckDB beats SQLite here, because the analytical queries scan whole columns."),
            ToolCallPart("1", "bash", {"command": "make bench"}),
            TextPart("Done, the storage is set up."),
        ),
    )
    result = MessageDraft(role="tool", parts=(ToolResultPart("1", "zirconium throughput 4711 rows"),))
    return indexed(owner, [user_says("please set up the storage"), answer, result], title="Storage")


@pytest.mark.parametrize(
    ("scope", "query", "kind"),
    [
        (["thinking"], "why does DuckDB beat SQLite for analytical queries", "columns"),
        (["tool"], "zirconium throughput", "zirconium"),
        (["user"], "set up the storage", "please"),
        ("assistant,user", "the storage is set up", "storage"),
    ],
)
def test_scope_says_whose_words_are_searched(
    owner: User, choice: Conversation, scope: Any, query: str, kind: str
) -> None:
    (hit,) = run_tool("ConversationSearch", {"query": query, "scope": scope}, Caller.of(owner))["results"]
    assert kind in hit["passage"]
    assert found_in("search_chat_history", owner, query=query, scope=scope) == {choice.pk}
    assert found_in("conversation_recall", owner, query=query, scope=scope) == {choice.pk}


def test_thinking_is_searched_by_default_but_not_recalled(owner: User, choice: Conversation) -> None:
    reason = "why does DuckDB beat SQLite for analytical queries that scan whole columns?"
    (hit,) = run_tool("ConversationSearch", {"query": reason}, Caller.of(owner))["results"]
    assert "scan whole columns" in hit["passage"]
    assert "scan whole columns" not in run_tool("conversation_recall", {"query": reason}, Caller.of(owner))["context"]
    asked_for = run_tool("conversation_recall", {"query": reason, "scope": ["thinking"]}, Caller.of(owner))
    assert "scan whole columns" in asked_for["context"]


@pytest.mark.parametrize("tool", SEARCH_TOOLS)
def test_filters_leave_out_other_conversations(owner: User, tool: str) -> None:
    bread = "how do I feed a sourdough starter?"
    early = indexed(owner, at(MARCH, bread, "Weekly, with flour."), agent="baker", project="kitchen")
    late = indexed(owner, at(MAY, bread, "Daily, in the summer."), agent="miller", project="mill")
    assert found_in(tool, owner, query=bread) == {early.pk, late.pk}
    assert found_in(tool, owner, query=bread, agent="baker") == {early.pk}
    assert found_in(tool, owner, query=bread, project="mill") == {late.pk}
    assert found_in(tool, owner, query=bread, after="2026-04-01") == {late.pk}
    assert found_in(tool, owner, query=bread, before="2026-04-01T00:00:00Z") == {early.pk}
    assert found_in(tool, owner, query=bread, agent="baker", project="mill") == set()


def test_conversation_is_read_with_thinking_and_whole_results_on_request(owner: User) -> None:
    long = "line\n" * 1_000 + "the end"
    answer = MessageDraft(role="assistant", parts=(ThinkingPart("secret thoughts"), TextPart("There.")))
    result = MessageDraft(role="tool", parts=(ToolResultPart("1", "start " + long),))
    made = make_conversation(owner, [user_says("where is it?"), answer, result])
    asked = {"conversation_id": made.pk, "max_tokens": 20_000}
    short = str(run_tool("read_conversation", asked, Caller.of(owner)))
    assert "secret thoughts" not in short
    assert len(short) < 3_000
    assert "[thinking] secret thoughts" in str(
        run_tool("read_conversation", asked | {"thinking": True}, Caller.of(owner))
    )
    whole = run_tool("read_conversation", asked | {"whole_tool_results": True}, Caller.of(owner))
    assert whole["messages"][-1]["text"] == f"[tool result] start {long}"


def test_cursor_of_reading_is_good_for_same_parts_only(owner: User) -> None:
    made = make_conversation(owner, exchange(("word " * 500, "yes")))
    asked = {"conversation_id": made.pk, "max_tokens": 100}
    cursor = run_tool("read_conversation", asked, Caller.of(owner))["next_cursor"]
    with pytest.raises(InvalidInput, match="cursor"):
        run_tool("read_conversation", asked | {"cursor": cursor, "thinking": True}, Caller.of(owner))


OPTIONS = (
    ("how large is the heap with -Xmx", "-Xmx sets the largest heap, here to 4g."),
    ("does go test -race find it?", "go test -race reports the unguarded counter."),
    ("why did write fail with -ENOSPC", "-ENOSPC means that no space is left."),
    ('what does "error: broken pipe" mean?', "The reader went away."),
)


@pytest.mark.parametrize("tool", SEARCH_TOOLS)
@pytest.mark.parametrize("query", ["-Xmx heap", "go test -race", "write failed -ENOSPC", 'the "broken  pipe:" error'])
def test_options_quotes_and_colons_are_words(owner: User, tool: str, query: str) -> None:
    made = indexed(owner, exchange(*OPTIONS))
    answer = run_tool(tool, {"query": query}, Caller.of(owner))
    wanted = next(n for n, word in enumerate(("Xmx", "race", "ENOSPC", "pipe")) if word in query)
    best = answer["results"][0]
    assert best.get("conversation_id", best.get("conversationId")) == made.pk
    assert best.get("turn_number", best.get("turnNumber")) == wanted
    assert "note" not in answer


TOPICS = (
    ("how do I keep a sourdough starter alive?", "Feed it flour and water once a week."),
    ("my bread dough does not rise", "Give the yeast more time and a warm place; a starter in the fridge sleeps."),
    ("when does the night train to Vienna leave?", "At 22:40 from platform 7."),
    ("which train did we take to the mountains?", "The early one, with the bicycles."),
    ("why is the nightly backup stuck?", "The disk was full, so the backup waited for space."),
    ("the disk of the server is full", "Remove old logs, then the backup runs again."),
    ("how do I renew the certificate?", "Run the renewal, then reload nginx."),
    ("nginx answers 502", "The upstream was gone: restart it, and look at the certificate of the proxy."),
)
QUESTIONS = (
    "feeding the starter", "warm place for yeast and flour", "night train platform", "early train with bicycles",
    "backup full disk", "old logs on the server", "renew certificate and reload", "proxy restart", "flour", "platform",
    "what was gone?", "wait for space",
)  # fmt: skip


@pytest.mark.parametrize("query", QUESTIONS)
def test_nearest_turn_is_found_with_any_limit(owner: User, query: str) -> None:
    for pair in TOPICS:
        indexed(owner, exchange(pair))
    everything = run_tool("search_chat_history", {"query": query, "limit": 20}, Caller.of(owner))["results"]
    scores = [row["score"] for row in everything]
    assert len(scores) == len(TOPICS)
    assert scores == sorted(scores)
    for limit in (1, 3):
        fewer = run_tool("search_chat_history", {"query": query, "limit": limit}, Caller.of(owner))["results"]
        assert fewer == everything[:limit]


def test_total_counts_what_passes_bar_and_not_page(owner: User, settings: Any) -> None:
    for pair in TOPICS:
        indexed(owner, exchange(pair))
    for limit in (1, 3, 20):
        answer = run_tool("search_chat_history", {"query": "flour", "limit": limit}, Caller.of(owner))
        assert answer["totalFound"] == len(TOPICS)
    settings.SEARCH_MIN_RELEVANCE = 0.37
    answer = run_tool("search_chat_history", {"query": QUESTIONS[0], "limit": 20}, Caller.of(owner))
    assert 0 < answer["totalFound"] < len(answer["results"]) == len(TOPICS)


BREAD = "how do I feed a sourdough starter?"


@pytest.fixture
def bakery(owner: User) -> Conversation:
    return indexed(
        owner,
        exchange(
            (BREAD, "Once a week, with flour and water."),
            ("and my sourdough starter in the summer?", "Twice a week: feed the starter when it smells sour."),
            ("how often do I feed the sourdough starter in winter?", "Every ten days, in the fridge."),
        ),
    )


def message_ids(conversation: Conversation, *positions: int) -> list[int]:
    rows = Message.objects.filter(conversation=conversation, position__in=positions).order_by("position")
    return list(rows.values_list("pk", flat=True))


def recalled(owner: User, **arguments: Any) -> tuple[set[int], str]:
    """The ids of the messages that come back, and the context."""
    answer = run_tool("conversation_recall", {"query": BREAD, "top_k": 20, **arguments}, Caller.of(owner))
    return {row["message_id"] for row in answer["results"]}, answer["context"]


def test_recall_can_be_of_one_conversation(owner: User, bakery: Conversation) -> None:
    other = indexed(owner, exchange((BREAD, "Ask the baker.")))
    assert found_in("conversation_recall", owner, query=BREAD, conversation_id=other.pk) == {other.pk}
    foreign = indexed(make_user(), exchange((BREAD, "Never.")))
    for unknown in (foreign.pk, 0, 10**30):
        with pytest.raises(NotFound, match="no conversation"):
            recalled(owner, conversation_id=unknown)


def test_messages_in_context_are_not_recalled(owner: User, bakery: Conversation) -> None:
    alive = message_ids(bakery, 2, 3, 4)
    ids, context = recalled(owner, alive_message_ids=alive)
    assert ids
    assert not ids & set(alive)
    for text in ("in the summer", "smells sour", "in winter"):
        assert text not in context
    assert "Every ten days" in context, "of a turn that is alive in part, the rest comes back"


def test_alive_from_position_excludes_all_later_messages(owner: User, bakery: Conversation) -> None:
    other = indexed(owner, exchange((BREAD, "Ask the baker.")))
    ids, context = recalled(owner, conversation_id=bakery.pk, alive_from_position=1)
    assert ids == set(message_ids(bakery, 0))
    assert "Once a week" not in context, "the opening of the answer is alive, too"
    assert other.pk not in found_in(
        "conversation_recall", owner, query=BREAD, conversation_id=bakery.pk, alive_from_position=2
    )
    with pytest.raises(InvalidInput, match="name it"):
        recalled(owner, alive_from_position=1)


def test_messages_in_context_do_not_use_up_top_k(owner: User, bakery: Conversation) -> None:
    """With one result allowed the nearest that is gone comes back, not nothing."""
    other = indexed(owner, exchange(*((f"{BREAD} ({number})", "As before.") for number in range(70))))
    alive = message_ids(other, *range(140))
    ids, _ = recalled(owner, alive_message_ids=alive, top_k=1)
    assert len(ids) == 1
    assert ids <= set(message_ids(bakery, *range(6)))


def test_impossible_message_ids_are_ignored(owner: User, bakery: Conversation) -> None:
    assert recalled(owner, alive_message_ids=[-1, 0, 2**63, 10**30])[0]


def test_messages_that_model_sees_are_excluded_from_recall(owner: User, bakery: Conversation) -> None:
    alive = message_ids(bakery, *range(4))
    seen = Seen(messages=frozenset(alive))
    answer = run_tool("conversation_recall", {"query": BREAD}, Caller.of(owner), seen=seen)
    assert {row["turn_number"] for row in answer["results"]} == {2}
    own = message_ids(bakery, 4, 5)
    both = run_tool("conversation_recall", {"query": BREAD, "alive_message_ids": own}, Caller.of(owner), seen=seen)
    assert both["results"] == []
    assert run_tool("ConversationSearch", {"query": BREAD}, Caller.of(owner), seen=seen)["results"], (
        "other tools are not told"
    )


def test_first_line_leaves_announcements_link_targets_and_repetitions_out() -> None:
    conclusion = "Removed the cracked shelf from the [kiln plan](/srv/kiln/plan.md:12) and told Berta."
    turn: dict[str, Any] = {"user_question": "ok", "passage": "I'm going to look at the plan.", "project": ""}
    answer = _answering(turn | {"outcome": {"conclusion": conclusion}}, is_first=True)
    assert answer == " | answer: Removed the cracked shelf from the kiln plan and told Berta."
    same = "**Take** celadon: two coats, and let each of them dry for a day in the cellar."
    turn |= {"passage": f"{same}\n- no glaze on the foot", "outcome": {"conclusion": same.replace("*", "")}}
    assert _answering(turn, is_first=True).count("two coats") == 1


def test_conversation_named_like_query_is_not_listed_besides_its_hit() -> None:
    title = {"kind": "conversation", "id": 7, "title": "Celadon", "url": "/conversations/7"}
    hit: dict[str, Any] = {
        "conversation_id": 7,
        "conversation_title": "Celadon",
        "turn_number": 0,
        "url": "/conversations/7?turn=0",
    }
    hit |= {
        "created_at": "2026-05-01",
        "project": "",
        "agent": "",
        "user_question": "Which glaze?",
        "passage": "Celadon.",
    }
    assert not search_as_text({"titles": [title], "results": [hit]}).startswith("- named like the query")
    assert search_as_text({"titles": [title | {"id": 8}], "results": [hit]}).startswith("- named like the query")
