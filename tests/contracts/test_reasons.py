"""Every surface gives the same typed reason for an empty or incomplete answer, with a sentence that says what to do."""

import json
from collections.abc import Callable
from html import unescape
from io import StringIO
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from jsonschema import validate

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.models import Import
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, EventDraft
from convmemory.conversations.models import Conversation
from convmemory.retention import trash
from convmemory.tools.registry import Seen, run_tool, tool_named
from search.adapters.conversations import index_conversation
from search.query import MODES
from search.reasons import PAGES, TOOLS, Reason
from tests.factories import exchange, make_conversation
from tests.support.api import Api, signed_in
from tests.support.documents import GUIDE, indexed, read, upload

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents_here")]

PAIRS = [("how do I rig a dinghy?", "Raise the mast first."), ("which knot holds the boom?", "A bowline holds it.")]
NONSENSE = "zzqqxx blorf"
Answer = dict[str, Any]


def archive(owner: User, *, is_indexed: bool = True) -> Conversation:
    made = make_conversation(owner, exchange(*PAIRS), title="Boats", project="/home/ada/sailing", agent="Skipper")
    if is_indexed:
        index_conversation(conversation_id=made.pk)
    return made


def by_api(path: str) -> Callable[..., Answer]:
    return lambda owner, **query: dict(Api(owner).get(path, **query).json())


def by_command(owner: User, **query: Any) -> Answer:
    out = StringIO()
    arguments = [f"--{name}={value}" for name, value in query.items()]
    call_command("conversation_search", "--user", owner.username, "--json", *arguments, stdout=out)
    return dict(json.loads(out.getvalue()))


def call(tool: str, arguments: Answer, owner: User | None, **values: Any) -> Answer:
    """Call a tool, and compare its answer with the schema that clients are given."""
    answer = run_tool(tool, arguments, Caller.of(owner).alone() if owner else None, **values)
    schema = tool_named(tool).output_schema
    validate(answer, schema)
    assert answer.keys() <= schema["properties"].keys()
    return answer


def by_tool(name: str) -> Callable[..., Answer]:
    return lambda owner, **query: call(name, query, owner)


def by_page(owner: User, path: str = "/search", **query: Any) -> Answer:
    client = signed_in(owner)
    asked = {"q": query["query"]} | query  # pages name it differently
    text = unescape(client.get(path, asked).content.decode())
    found = [reason for reason in Reason if all(piece in text for piece in _pieces(str(PAGES[reason])))]
    return {"reason": found[0] if found else None, "notes": [text]}


SURFACES: dict[str, Callable[..., Answer]] = {
    "turns over the API": by_api("/conversations/search"),
    "everything over the API": by_api("/search"),
    "command": by_command,
    "page": by_page,
    "ConversationSearch": by_tool("ConversationSearch"),
    "search_chat_history": by_tool("search_chat_history"),
}
PROGRAMS = [name for name in SURFACES if name != "page"]
WITH_MODES = ["turns over the API", "everything over the API", "command", "page"]
WITH_CURSORS = ["turns over the API", "everything over the API", "command", "ConversationSearch"]


def check(answer: Answer, reason: Reason) -> None:
    said = " ".join(answer.get("notes") or [answer.get("note", "")])
    assert answer["reason"] == reason, said
    if "<html" not in said:
        assert all(piece in said for piece in _pieces(TOOLS[reason]))


def _pieces(sentence: str) -> list[str]:
    """The parts of a sentence between its values."""
    return [piece.split(")s")[-1] for piece in sentence.split("%(")]


def test_empty_archive_has_nothing_stored(owner: User, subtests: pytest.Subtests) -> None:
    assert "Nothing here yet" in by_page(owner, query="bowline")["notes"][0]  # the page invites to import instead
    for surface in PROGRAMS:
        with subtests.test(surface=surface):
            check(SURFACES[surface](owner, query="bowline"), Reason.NOTHING_STORED)


def test_unknown_project_gets_nearest_names(owner: User, subtests: pytest.Subtests) -> None:
    archive(owner)
    for surface, ask in SURFACES.items():
        with subtests.test(surface=surface):
            answer = ask(owner, query="bowline", project="sailng")
            check(answer, Reason.FILTERED_OUT)
            assert "/home/ada/sailing" in str(answer.get("notes", answer.get("note")))


def test_names_of_filters_match_by_last_part_and_in_any_case(owner: User, subtests: pytest.Subtests) -> None:
    archive(owner)
    for surface, filters in product(SURFACES, [{"project": "Sailing"}, {"agent": "skipper"}]):
        with subtests.test(surface=surface, filters=filters):
            answer = SURFACES[surface](owner, query="which knot holds the boom?", **filters)
            assert answer.get("reason") is None
            assert "results" not in answer or len(answer["results"]) == 2


def test_unknown_words_match_nothing_in_full_text(owner: User, subtests: pytest.Subtests) -> None:
    archive(owner)
    for surface in WITH_MODES:
        with subtests.test(surface=surface):
            check(SURFACES[surface](owner, query=NONSENSE, mode="full_text"), Reason.NO_MATCH)


def test_hits_that_hardly_answer_are_below_bar(owner: User, settings: Any, subtests: pytest.Subtests) -> None:
    settings.SEARCH_MIN_RELEVANCE = 0.37
    archive(owner)
    for surface in PROGRAMS:
        with subtests.test(surface=surface):
            answer = SURFACES[surface](owner, query=NONSENSE)
            check(answer, Reason.BELOW_BAR)
            assert answer["results"]


def test_waiting_turns_are_counted_and_nothing_is_called_unanswered(
    owner: User, settings: Any, subtests: pytest.Subtests
) -> None:
    settings.SEARCH_MIN_RELEVANCE = 0.37
    archive(owner)
    archive(owner, is_indexed=False)
    for surface, query in product(SURFACES, ["which knot holds the boom?", NONSENSE]):
        with subtests.test(surface=surface, query=query):
            answer = SURFACES[surface](owner, query=query)
            check(answer, Reason.PENDING)
            assert "2 of 4 turns" in str(answer.get("notes", answer.get("note")))
            assert answer.get("answered") is not False
            assert surface == "page" or answer["pending"] == 2


def test_conversation_put_back_from_trash_is_waited_for_in_every_mode(owner: User, subtests: pytest.Subtests) -> None:
    archive(owner)
    made = archive(owner)
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=made.pk)
    trash.restore(caller=Caller.of(owner), kind="conversation", object_id=made.pk)
    for surface, mode in product(WITH_MODES, MODES):
        with subtests.test(surface=surface, mode=mode):
            answer = SURFACES[surface](owner, query="which knot holds the boom?", mode=mode)
            check(answer, Reason.PENDING)
            assert "2 of 4 turns" in str(answer["notes"])
            assert surface == "page" or answer["pending"] == 2
    index_conversation(conversation_id=made.pk)
    for surface, mode in product(WITH_MODES, MODES):
        with subtests.test("indexed", surface=surface, mode=mode):
            answer = SURFACES[surface](owner, query="which knot holds the boom?", mode=mode)
            assert (answer["reason"], answer.get("pending", 0)) == (None, 0)


def test_turns_with_words_are_not_waited_for_by_search_by_words(owner: User, subtests: pytest.Subtests) -> None:
    archive(owner, is_indexed=False)
    for surface in WITH_MODES:
        with subtests.test(surface=surface):
            answer = SURFACES[surface](owner, query="bowline", mode="full_text")
            assert (answer["reason"], answer.get("pending", 0)) == (None, 0)


def test_document_being_read_is_waited_for_where_documents_are_searched(owner: User, subtests: pytest.Subtests) -> None:
    archive(owner)
    upload(owner, GUIDE)
    query = "which knot holds the boom?"
    for surface, mode in product(["everything over the API", "page"], MODES):
        with subtests.test(surface=surface, mode=mode):
            answer = SURFACES[surface](owner, query=query, mode=mode)
            check(answer, Reason.PENDING)
            assert "1 document is being read" in str(answer["notes"])
            assert surface == "page" or answer["pending"] == 1
    for mode in MODES:
        assert by_api("/conversations/search")(owner, query=query, mode=mode)["pending"] == 0
        assert by_api("/search")(owner, query=query, mode=mode, agent="Skipper")["pending"] == 0


def test_unfinished_import_is_waited_for_where_conversations_are_searched(
    owner: User, subtests: pytest.Subtests
) -> None:
    Import.objects.create(archive_id=owner.pk, name="boats.zip", size=1)
    for surface, mode in product(WITH_MODES, MODES):
        with subtests.test(surface=surface, mode=mode):
            answer = SURFACES[surface](owner, query="which knot holds the boom?", mode=mode)
            check(answer, Reason.PENDING)
            assert "1 import has not ended" in str(answer["notes"])
    archive(owner)
    for surface in WITH_MODES:
        with subtests.test("with turns", surface=surface):
            check(SURFACES[surface](owner, query="which knot holds the boom?"), Reason.PENDING)
    assert by_api("/documents/search")(owner, query="which knot holds the boom?")["pending"] == 0
    Import.objects.update(is_preview=True)
    for surface in WITH_MODES:
        with subtests.test("of a preview", surface=surface):
            assert SURFACES[surface](owner, query="which knot holds the boom?")["reason"] is None


def test_turns_that_filters_leave_out_are_not_waited_for(owner: User, subtests: pytest.Subtests) -> None:
    archive(owner)
    make_conversation(owner, exchange(*PAIRS), project="other")
    for surface, ask in SURFACES.items():
        with subtests.test(surface=surface):
            answer = ask(owner, query="which knot holds the boom?", project="sailing")
            assert answer.get("reason") is None


@pytest.mark.parametrize("surface", WITH_CURSORS)
def test_cursor_past_end_is_named(owner: User, surface: str) -> None:
    first, second = archive(owner), archive(owner)
    ask = SURFACES[surface]
    cursor = ask(owner, query="which knot holds the boom?", limit=3)["next_cursor"]
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=first.pk)
    check(ask(owner, query="which knot holds the boom?", limit=3, cursor=cursor), Reason.PAST_END)
    assert second.pk


DOCUMENT_SURFACES: dict[str, Callable[..., Answer]] = {
    "API": by_api("/documents/search"),
    "document_search": by_tool("document_search"),
}


@pytest.mark.parametrize("surface", DOCUMENT_SURFACES)
def test_documents_that_cannot_be_searched_are_explained(owner: User, surface: str) -> None:
    ask = DOCUMENT_SURFACES[surface]
    archive(owner)
    check(ask(owner, query="tomatoes"), Reason.NOTHING_STORED)
    document = upload(owner, GUIDE)
    check(ask(owner, query="tomatoes"), Reason.NOT_READY)
    check(ask(owner, query="tomatoes", document_id=document.pk), Reason.NOT_READY)
    read(document)
    answer = ask(owner, query="how much sun do tomatoes need?")
    check(answer, Reason.PENDING)
    assert answer["results"]
    assert "sections" in str(answer.get("notes", answer.get("note")))
    indexed(document)
    assert ask(owner, query="how much sun do tomatoes need?").get("reason") is None


def test_documents_that_are_not_attached_are_explained(owner: User) -> None:
    conversation, guide = archive(owner), indexed(upload(owner, GUIDE))
    other = indexed(upload(owner, "Tomatoes are red.", "other.txt"))
    check(
        Api(owner).get("/documents/search", query="sun", conversation_id=conversation.pk).json(), Reason.NONE_ATTACHED
    )
    none = call("document_search", {"query": "sun"}, owner, seen=Seen(documents=frozenset()))
    check(none, Reason.NONE_ATTACHED)
    seen = Seen(documents=frozenset({guide.pk}))
    check(call("document_search", {"query": "sun", "document_id": other.pk}, owner, seen=seen), Reason.NOT_ATTACHED)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("ConversationSearch", {"query": "bowline"}), ("search_chat_history", {"query": "bowline"}),
        ("conversation_recall", {"query": "bowline"}), ("document_search", {"query": "bowline"}),
        ("list_conversations", {}), ("search_events", {"words": "bowline"}),
        ("conversation_ask", {"query": "which bowline?"}),
    ],
)  # fmt: skip
def test_tools_without_caller_say_so(tool: str, arguments: Answer) -> None:
    assert call(tool, arguments, None)["reason"] == Reason.NO_CALLER


def recall_by_page(owner: User, **query: Any) -> Answer:
    return by_page(owner, path="/recall", **query)


RECALLS: dict[str, Callable[..., Answer]] = {
    "API": lambda owner, **body: Api(owner).send("POST", "/memory/recall", body).json(),
    "conversation_recall": by_tool("conversation_recall"),
    "page": recall_by_page,
}


@pytest.mark.parametrize("surface", RECALLS)
def test_recall_explains_why_it_brings_nothing_or_not_all(owner: User, settings: Any, surface: str) -> None:
    settings.RECALL_MIN_RELEVANCE = 0.25
    recall, boom = RECALLS[surface], "which knot holds the boom?"
    check(recall(owner, query=boom), Reason.NOTHING_STORED)
    made = archive(owner)
    answer = recall(owner, query=boom)
    assert answer.get("reason") is None
    silent = recall(owner, query=NONSENSE)
    check(silent, Reason.BELOW_BAR)
    if surface != "page":  # it has no filters, and counts what it shows
        assert answer["total_found"] >= len(answer["results"]) > silent["total_found"] == 0
        check(recall(owner, query=boom, project="sailng"), Reason.FILTERED_OUT)
        alive = list(made.messages.values_list("pk", flat=True))
        check(recall(owner, query=boom, alive_message_ids=alive), Reason.IN_CONTEXT)
    if surface == "API":
        nearer = recall(owner, query=boom, threshold=1)
        check(nearer, Reason.BELOW_BAR)
        assert "a lower threshold brings back more" in nearer["notes"][0]
    archive(owner, is_indexed=False)
    for query in (boom, NONSENSE):
        waiting = recall(owner, query=query)
        check(waiting, Reason.PENDING)
        assert "2 of 4 turns" in str(waiting.get("notes", waiting.get("note")))
        assert waiting.get("answered") is not False
        assert surface == "page" or waiting["pending"] == 2


def test_reading_and_listing_explain_empty_pages(owner: User) -> None:
    check(call("list_conversations", {}, owner), Reason.NOTHING_STORED)
    made = archive(owner)
    unknown = call("list_conversations", {"agent": "skiper"}, owner)
    check(unknown, Reason.FILTERED_OUT)
    assert "'Skipper'" in unknown["note"]
    assert call("list_conversations", {"project": "sailing"}, owner)["results"]
    check(call("read_conversation", {"conversation_id": made.pk, "from_turn": 7}, owner), Reason.PAST_END)


def test_searches_of_events_explain_empty_pages(owner: User) -> None:
    check(call("search_events", {"words": "mast"}, owner), Reason.NOTHING_STORED)
    event = EventDraft(1, "tool_error", level="ERROR", payload={"message": "The mast is down."})
    draft = ConversationDraft(exchange(*PAIRS), source="amplifier", source_id="1", events=[event])
    ingest.sync_conversation(caller=Caller.of(owner), draft=draft)
    (found,) = call("search_events", {"words": "mast"}, owner)["results"]
    check(call("search_events", {"words": "jib"}, owner), Reason.NO_MATCH)
    check(call("search_events", {"level": "FATAL"}, owner), Reason.FILTERED_OUT)
    check(call("search_events", {"after_id": found["id"]}, owner), Reason.PAST_END)
    assert call("search_events", {"similar_to": found["id"]}, owner)["reason"] == Reason.NO_MATCH


def test_each_reason_has_one_sentence_for_tools_and_one_for_pages() -> None:
    assert TOOLS.keys() == PAGES.keys() == set(Reason)
