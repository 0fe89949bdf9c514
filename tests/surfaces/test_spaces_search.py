"""Searches of a person's archive and spaces in one ranking, by page, API and tools, with keys that name spaces."""

import html
import json
import re
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import caller_of_key, create_key
from convmemory.accounts.models import ApiKey, Archive, Membership
from convmemory.accounts.spaces import create_space, remove_member
from convmemory.api import api
from convmemory.conversations.messages.drafts import EventDraft
from convmemory.conversations.messages.event_log import add_events
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.documents.library import attach
from convmemory.documents.models import Document
from convmemory.tools.registry import run_tool
from search.adapters.conversations import index_conversation
from tests.factories import add_member, caller_for, exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.documents import indexed as indexed_document
from tests.support.documents import upload
from tests.support.markup import flat
from tests.support.stored_rows import stored_for_file

pytestmark = pytest.mark.django_db

QUESTION = "which varnish suits the oars of the boat?"
HOME = [("which wax suits the skis?", "A hard one, in frost."), ("who has the oars of the boat?", "Nobody knows.")]
SHARED = [(QUESTION, "Spar varnish suits the oars of the boat, in three coats.")]


@dataclass
class Crew:
    """Rosa reads the space of Mia; both archives hold conversations."""

    mia: User
    rosa: User
    space: int
    home: Conversation
    shared: Conversation

    def program(self, **options: Any) -> Client:
        return Client(headers={"Authorization": f"Bearer {create_key(person=self.rosa, **options)}"})

    def search(self, client: Client, status: int = 200, **query: Any) -> dict[str, Any]:
        response = client.get("/api/v1/search", {"query": QUESTION, **query})
        assert response.status_code == status, response.content
        answer: dict[str, Any] = response.json()
        return answer


def indexed(owner: User | Archive, *pairs: tuple[str, str], title: str) -> Conversation:
    made = make_conversation(owner, exchange(*pairs), title=title)
    index_conversation(conversation_id=made.pk)
    return made


def store_crew() -> Crew:
    mia, rosa = make_user("mia"), make_user("rosa")
    account = create_space(person=mia, name="Boat house")
    add_member(person=mia, space_id=account.pk, username="rosa", role="reader")
    home = indexed(rosa, *HOME, title="At home")
    return Crew(mia, rosa, account.pk, home, indexed(account, *SHARED, title="Varnish"))


crew = stored_for_file(store_crew)


def conversations_in(answer: dict[str, Any]) -> list[int]:
    return [hit["conversation_id"] for hit in answer["results"]]


def test_better_hit_of_space_comes_first_and_names_its_space(crew: Crew) -> None:
    answer = crew.search(signed_in(crew.rosa))
    first, *others = answer["results"]
    assert (first["conversation_id"], first["space"]) == (crew.shared.pk, {"id": crew.space, "name": "Boat house"})
    assert {(hit["conversation_id"], hit["space"]) for hit in others} == {(crew.home.pk, None)}
    assert answer["answered"] is True
    relevance = [hit["relevance"] for hit in answer["results"]]
    assert relevance == sorted(relevance, reverse=True)


def test_pages_of_merged_results_hold_each_hit_once(crew: Crew) -> None:
    whole = crew.search(signed_in(crew.rosa))["results"]
    assert len(whole) == 3
    paged: list[dict[str, Any]] = []
    cursor: str | None = ""
    for _ in whole:
        answer = crew.search(signed_in(crew.rosa), limit=1, cursor=cursor)
        paged += answer["results"]
        cursor = answer["next_cursor"]
    assert cursor is None
    key = ("conversation_id", "turn_number")
    assert sorted([hit[name] for name in key] for hit in paged) == sorted([hit[name] for name in key] for hit in whole)


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "full_text"])
def test_space_filter_restricts_search_to_one_archive(crew: Crew, mode: str) -> None:
    browser = signed_in(crew.rosa)
    assert set(conversations_in(crew.search(browser, mode=mode))) == {crew.home.pk, crew.shared.pk}
    assert set(conversations_in(crew.search(browser, mode=mode, space="mine"))) == {crew.home.pk}
    assert conversations_in(crew.search(browser, mode=mode, space=crew.space)) == [crew.shared.pk]
    assert "no space" in crew.search(browser, status=404, space=crew.space + 1)["detail"]


def test_key_searches_and_reads_spaces_that_it_names_alone(crew: Crew) -> None:
    other = create_space(person=crew.rosa, name="Ski club")
    shared = f"/api/v1/conversations/{crew.shared.pk}"
    for options, sees in (
        ({}, False),
        ({"space_ids": [other.pk]}, False),
        ({"space_ids": [crew.space]}, True),
        ({"space_ids": None}, True),
    ):
        program = crew.program(**options)
        assert (crew.shared.pk in conversations_in(crew.search(program))) == sees, options
        assert program.get(shared).status_code == (200 if sees else 404), options
        assert program.get(f"{shared}/messages").status_code == (200 if sees else 404), options
        crew.search(program, status=200 if sees else 404, space=crew.space)


def test_key_of_former_member_sees_nothing_in_next_request(crew: Crew) -> None:
    program = crew.program(space_ids=[crew.space])
    answer = crew.search(program, limit=1)
    assert conversations_in(answer) == [crew.shared.pk]
    remove_member(person=crew.mia, space_id=crew.space, member_id=crew.rosa.pk)
    crew.search(program, status=422, limit=1, cursor=answer["next_cursor"])
    assert set(conversations_in(crew.search(program))) == {crew.home.pk}
    assert program.get(f"/api/v1/conversations/{crew.shared.pk}").status_code == 404
    crew.search(signed_in(crew.rosa), status=404, space=crew.space)


@pytest.mark.parametrize("role", ["reader", "contributor", "manager"])
def test_key_writes_to_space_only_if_it_and_role_of_owner_do(crew: Crew, role: str) -> None:
    Membership.objects.filter(person=crew.rosa).update(role=role)
    program, path = crew.program(space_ids=None), f"/api/v1/conversations/{crew.shared.pk}"
    for refused in (program.patch(path, {"title": "Mine"}, content_type="application/json"), program.delete(path)):
        assert refused.status_code == 403
        assert "This key only reads spaces" in refused.json()["detail"]
    crew.shared.refresh_from_db()
    assert crew.shared.title == "Varnish"
    for space_ids, status in (([], 404), ([crew.space], 403 if role == "reader" else 200)):
        writer = crew.program(space_ids=space_ids, writes_spaces=True)
        changed = writer.patch(path, {"title": "Mine"}, content_type="application/json")
        assert changed.status_code == status, changed.content
    crew.shared.refresh_from_db()
    assert crew.shared.title == ("Varnish" if role == "reader" else "Mine")


def test_reader_of_space_recalls_in_one_of_its_conversations_and_changes_nothing(crew: Crew) -> None:
    asked, here = json.dumps({"query": QUESTION}), f"/api/v1/conversations/{crew.shared.pk}"
    recall = f"{here}/memory/recall"
    changing = [
        (method.upper(), re.sub(r"{.*?}", "1", path.replace("/api/v1/conversations/{conversation_id}", here)))
        for path, methods in api.get_openapi_schema()["paths"].items()
        for method in methods.keys() - {"get"}
        if "{conversation_id}" in path and not path.endswith(("/memory/recall", "/stream"))
    ]
    assert len(changing) > 10
    for client in (signed_in(crew.rosa), crew.program(space_ids=[crew.space])):
        answer = client.post(recall, asked, content_type="application/json")
        assert answer.status_code == 200, answer.content
        assert {hit["conversation_id"] for hit in answer.json()["results"]} == {crew.shared.pk}
        for method, path in changing:
            assert client.generic(method, path, "{}", content_type="application/json").status_code == 403, path
    stranger = signed_in(make_user()).post(recall, asked, content_type="application/json")
    assert stranger.status_code == 404
    without_token = Client(enforce_csrf_checks=True)
    without_token.force_login(crew.rosa)
    assert without_token.post(recall, asked, content_type="application/json").status_code == 403
    assert Conversation.objects.get(pk=crew.shared.pk).message_count == 2


def test_reader_downloads_and_copies_chosen_conversations_of_space_and_changes_none(crew: Crew) -> None:
    browser = signed_in(crew.rosa)
    browser.post("/spaces/use", {"space": crew.space})
    chosen = {"chosen": crew.shared.pk}
    downloaded = browser.post("/library/change", {**chosen, "action": "export", "format": "json"})
    assert b"Spar varnish" in b"".join(downloaded.streaming_content)  # type: ignore[attr-defined]
    asked = browser.post("/library/change", {**chosen, "action": "move"})
    assert asked.headers["Location"] == f"/move?conversation={crew.shared.pk}"
    for action in ("archive", "star", "tag", "delete", "export,delete", ""):
        assert browser.post("/library/change", {**chosen, "action": action, "tag": "x"}).status_code == 403


def test_tools_use_spaces_of_key_and_no_others(crew: Crew, settings: Any) -> None:
    settings.MCP_MARKING = True
    key = create_key(person=crew.rosa, space_ids=[crew.space])
    for caller, sees in (
        (caller_of_key(key), True),
        (caller_of_key(create_key(person=crew.rosa)), False),
        (Caller.of(crew.rosa).alone(), False),
    ):
        with acting_for(crew.rosa.pk):
            hits = run_tool("search", {"query": QUESTION}, caller)["results"]
        assert (crew.shared.pk in {hit["conversation_id"] for hit in hits}) == sees
    program = Client(headers={"Authorization": f"Bearer {key}"})

    def call(tool: str, arguments: dict[str, Any]) -> Any:
        return program.post(f"/api/v1/tools/{tool}", arguments, content_type="application/json")

    first = call("search", {"query": QUESTION}).json()["results"][0]
    assert (first["space"], first["space_id"]) == ("Boat house", crew.space)
    assert "Spar varnish" in first["outcome"]["conclusion"]
    assert "Spar varnish" in call("read_conversation", {"conversation_id": crew.shared.pk}).content.decode()
    marked = call("mark_turn", {"conversation_id": crew.shared.pk, "turn": 0, "mark": "wrong"})
    assert (marked.status_code, "Tools only read spaces" in marked.content.decode()) == (403, True)


def test_search_page_shows_all_archives_and_offers_each_to_members(crew: Crew) -> None:
    address = f"/conversations/{crew.shared.pk}?"
    page = signed_in(crew.rosa).get("/search", {"q": QUESTION}).content.decode()
    assert [text for text in (address, "Spar <mark>", "Boat house", f"space={crew.space}") if text not in page] == []
    page = signed_in(crew.rosa).get("/search", {"q": QUESTION, "space": "mine"}).content.decode()
    assert address not in page
    stranger = make_user()
    indexed(stranger, *HOME, title="Elsewhere")
    remove_member(person=crew.mia, space_id=crew.space, member_id=crew.rosa.pk)
    for outsider in (stranger, crew.rosa):
        page = signed_in(outsider).get("/search", {"q": QUESTION}).content.decode()
        assert [text for text in (address, "Spar <mark>", "Boat house", "All archives") if text in page] == []


def test_neighbouring_hits_are_shown_in_conversation_of_space(crew: Crew) -> None:
    query: dict[str, Any] = {"q": QUESTION, "conversation": crew.shared.pk, "turn": 0}
    assert signed_in(crew.rosa).get("/search/hits-in", query).status_code == 200
    assert signed_in(make_user()).get("/search/hits-in", query).status_code == 204


def test_keys_page_offers_spaces_to_members_alone(crew: Crew) -> None:
    browser = signed_in(crew.rosa)
    assert "Boat house" in browser.get("/settings/keys").content.decode()
    assert 'name="spaces"' not in signed_in(make_user()).get("/settings/keys").content.decode()
    for spaces in ({"spaces": [crew.space]}, {"all_spaces": "on"}, {}, {"spaces": [crew.space + 1]}):
        browser.post("/settings/keys", {"expires": "30", **spaces})
    chosen = ApiKey.objects.filter(person_id=crew.rosa.pk).order_by("pk").values_list("space_ids", flat=True)
    assert list(chosen) == [[crew.space], None, []]
    assert "reads all spaces" in browser.get("/settings/keys").content.decode()


def test_commands_name_spaces_of_key_and_of_hits(crew: Crew, capsys: Any) -> None:
    call_command("conversation_search", query=QUESTION, user="rosa")
    assert f"in the space Boat house ({crew.space})" in capsys.readouterr().out
    call_command("create_api_key", "rosa", "--space", str(crew.space))
    found = caller_of_key(capsys.readouterr().out.splitlines()[-1])
    assert found is not None
    assert [access.archive_id for access in found.spaces] == [crew.space]
    with pytest.raises(CommandError, match="not a member of a space"):
        call_command("create_api_key", "rosa", "--space", str(crew.space + 1))


def recalled(client: Client, status: int = 200, **values: Any) -> dict[str, Any]:
    response = client.post("/api/v1/memory/recall", {"query": QUESTION, **values}, content_type="application/json")
    assert response.status_code == status, response.content
    answer: dict[str, Any] = response.json()
    return answer


def test_recall_brings_best_of_all_archives_and_names_space(crew: Crew) -> None:
    answer = recalled(signed_in(crew.rosa), min_relevance=0)
    first = answer["results"][0]
    assert (first["conversation_id"], first["space"]) == (crew.shared.pk, {"id": crew.space, "name": "Boat house"})
    assert {hit["conversation_id"] for hit in answer["results"]} == {crew.shared.pk, crew.home.pk}
    assert "(space Boat house)" in answer["context"]
    assert answer["answered"] is True
    assert len(recalled(signed_in(crew.rosa), min_relevance=0, top_k=1)["results"]) == 1
    own = recalled(signed_in(crew.rosa), min_relevance=0, space="mine")
    assert set(conversations_in(own)) == {crew.home.pk}
    assert "(space" not in own["context"]
    seen = [hit["message_id"] for hit in answer["results"]]
    again = recalled(signed_in(crew.rosa), min_relevance=0, alive_message_ids=seen)
    assert not set(seen) & {hit["message_id"] for hit in again["results"]}


def test_recall_and_lists_read_spaces_that_key_names_alone(crew: Crew) -> None:
    for options, sees in (({}, False), ({"space_ids": [crew.space]}, True), ({"space_ids": None}, True)):
        program = crew.program(**options)
        assert (crew.shared.pk in conversations_in(recalled(program, min_relevance=0))) == sees, options
        recalled(program, status=200 if sees else 404, space=str(crew.space))
        listed = program.get("/api/v1/conversations").json()["results"]
        names = {each["id"]: each["space"] and each["space"]["name"] for each in listed}
        assert names == {crew.home.pk: None} | ({crew.shared.pk: "Boat house"} if sees else {})
        one = program.get("/api/v1/conversations", {"space": crew.space})
        assert one.status_code == (200 if sees else 404)
        by_tool = run_tool("list_conversations", {}, caller_of_key(create_key(person=crew.rosa, **options)))
        assert {each["conversation_id"] for each in by_tool["results"]} == set(names)
    program = crew.program(space_ids=[crew.space])
    remove_member(person=crew.mia, space_id=crew.space, member_id=crew.rosa.pk)
    assert set(conversations_in(recalled(program, min_relevance=0))) == {crew.home.pk}
    assert [each["id"] for each in program.get("/api/v1/conversations").json()["results"]] == [crew.home.pk]


def test_pages_of_merged_list_hold_each_conversation_once_newest_first(crew: Crew) -> None:
    owners: tuple[User | Archive, ...] = (crew.rosa, crew.shared.archive)
    for number, owner in enumerate(owners * 2):
        make_conversation(owner, exchange(("Where?", "Here.")), title=f"Trip {number}")
    browser = signed_in(crew.rosa)
    page = browser.get("/api/v1/conversations", {"limit": 2}).json()
    other = {"limit": 2, "cursor": page["next_cursor"], "space": "mine"}
    assert browser.get("/api/v1/conversations", {"space": 2**62}).status_code == 404
    found = page["results"]
    while page["next_cursor"]:
        page = browser.get("/api/v1/conversations", {"limit": 2, "cursor": page["next_cursor"]}).json()
        found += page["results"]
    assert len({each["id"] for each in found}) == len(found) == 6
    order = [(each["updated_at"], each["id"]) for each in found]
    assert order == sorted(order, reverse=True)
    assert browser.get("/api/v1/conversations", other).status_code == 422


@pytest.mark.parametrize(
    "tool", ["search", "ConversationSearch", "recall", "conversation_recall", "list_conversations"]
)
def test_tool_takes_space_by_number_or_name(crew: Crew, settings: Any, tool: str) -> None:
    settings.RECALL_MIN_RELEVANCE = 0.0
    asked = {} if tool == "list_conversations" else {"query": QUESTION}

    def found_in(space: str, **options: Any) -> set[int]:
        caller = caller_of_key(create_key(person=crew.rosa, **options))
        with acting_for(crew.rosa.pk):
            return {hit["conversation_id"] for hit in run_tool(tool, asked | {"space": space}, caller)["results"]}

    assert crew.shared.pk in found_in("", space_ids=None)
    assert found_in("mine", space_ids=None) == {crew.home.pk}
    for space in (str(crew.space), "Boat house", " boat  HOUSE "):
        assert found_in(space, space_ids=[crew.space]) == {crew.shared.pk}
    for space, options in (("Boat house", {}), ("Ski club", {"space_ids": None}), (str(crew.space), {})):
        with pytest.raises(NotFound, match="There is no space"):
            found_in(space, **options)
    twin = create_space(person=crew.rosa, name="Boat House")
    with pytest.raises(InvalidInput, match=f"by its number, .*{twin.pk}"):
        found_in("boat house", space_ids=None)
    remove_member(person=crew.mia, space_id=crew.space, member_id=crew.rosa.pk)
    with pytest.raises(NotFound, match="There is no space"):
        found_in(str(crew.space), space_ids=None)


def test_empty_list_says_what_is_true_of_all_archives(crew: Crew) -> None:
    caller = caller_of_key(create_key(person=crew.rosa, space_ids=[crew.space]))
    Conversation.objects.filter(pk=crew.shared.pk).update(agent="oarsman")
    with acting_for(crew.rosa.pk):
        listed = run_tool("list_conversations", {"agent": "oarsman", "before": "2001-01-01"}, caller)
        assert "oarsman" not in listed["note"]
        assert (
            "“oarsman” is unknown"
            in run_tool("list_conversations", {"agent": "oarsman"}, Caller.of(crew.rosa).alone())["note"]
        )
        Conversation.objects.filter(pk=crew.home.pk).delete()
        assert run_tool("list_conversations", {"before": "2001-01-01"}, caller)["reason"] == "filtered_out"


def test_recall_tool_reads_conversation_of_space_of_key(crew: Crew) -> None:
    caller = caller_of_key(create_key(person=crew.rosa, space_ids=[crew.space]))
    asked = {"query": QUESTION, "conversation_id": crew.shared.pk}
    with acting_for(crew.rosa.pk):
        answer = run_tool("conversation_recall", asked, caller)
        assert {hit["space_id"] for hit in answer["results"]} == {crew.space}
        with pytest.raises(NotFound):
            run_tool("conversation_recall", asked, Caller.of(crew.rosa).alone())


def test_recall_page_shows_all_archives_or_chosen_one(crew: Crew) -> None:
    browser = signed_in(crew.rosa)
    place = f"/conversations/{crew.shared.pk}?turn=0"
    page = browser.get("/recall", {"query": QUESTION, "min_relevance": "0"}).content.decode()
    assert place in page
    assert f'<option value="{crew.space}">Boat house</option>' in page
    own = browser.get("/recall", {"query": QUESTION, "min_relevance": "0", "space": "mine"}).content.decode()
    assert place not in own
    assert browser.get("/recall", {"query": QUESTION, "space": str(crew.space + 1)}).status_code == 422
    assert 'name="space"' not in signed_in(make_user("stan")).get("/recall").content.decode()


@dataclass
class Manuals:
    """A document in Rosa's archive, and one in the space."""

    home: Document
    shared: Document

    @property
    def ids(self) -> set[int]:
        return {self.home.pk, self.shared.pk}


@pytest.fixture
def manuals(crew: Crew, documents_here: None) -> Manuals:
    home = indexed_document(upload(crew.rosa, "# Skis\n\nThe skis hang beside the oars, without varnish.", "skis.md"))
    return Manuals(home, indexed_document(upload(crew.shared.archive, f"# Oars\n\n{SHARED[0][1]}", "oars.md")))


def sections(client: Client, status: int = 200, **query: Any) -> list[dict[str, Any]]:
    response = client.get("/api/v1/documents/search", {"query": QUESTION, **query})
    assert response.status_code == status, response.content
    results: list[dict[str, Any]] = response.json().get("results", [])
    return results


def test_document_search_ranks_archives_together_and_names_space(crew: Crew, manuals: Manuals) -> None:
    browser = signed_in(crew.rosa)
    first, other = sections(browser)
    assert (first["document_id"], first["space"]) == (manuals.shared.pk, {"id": crew.space, "name": "Boat house"})
    assert (other["document_id"], other["space"]) == (manuals.home.pk, None)
    for query, document in (
        ({"space": "mine"}, manuals.home),
        ({"space": crew.space}, manuals.shared),
        ({"document_id": manuals.home.pk}, manuals.home),
        ({"document_id": manuals.shared.pk}, manuals.shared),
    ):
        assert {hit["document_id"] for hit in sections(browser, **query)} == {document.pk}, query
    assert sections(browser, conversation_id=crew.shared.pk) == []
    attach(caller=caller_for(crew.shared.archive), conversation_id=crew.shared.pk, document_ids=[manuals.shared.pk])
    assert [hit["document_id"] for hit in sections(browser, conversation_id=crew.shared.pk)] == [manuals.shared.pk]
    sections(browser, status=404, document_id=manuals.shared.pk, space="mine")
    sections(browser, status=404, space=crew.space + 1)


def test_pages_of_merged_sections_hold_each_document_once(crew: Crew, manuals: Manuals) -> None:
    owners: tuple[User | Archive, ...] = (crew.rosa, crew.shared.archive)
    for number, owner in enumerate(owners * 6):
        indexed_document(upload(owner, f"Oar number {number} of the boat has varnish.", f"{number}.txt"))
    found: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        query: dict[str, Any] = {"query": QUESTION, "limit": 13, "cursor": cursor}
        page = signed_in(crew.rosa).get("/api/v1/documents/search", query).json()
        found += [hit["document_id"] for hit in page["results"]]
        cursor = page["next_cursor"]
    assert len(found) == len(set(found)) == 14


def test_documents_of_spaces_are_read_by_keys_that_name_them_alone(crew: Crew, manuals: Manuals) -> None:
    other = create_space(person=crew.rosa, name="Ski club")
    programs = []
    for options, sees in (
        ({}, False),
        ({"space_ids": [other.pk]}, False),
        ({"space_ids": [crew.space]}, True),
        ({"space_ids": None}, True),
    ):
        program = crew.program(**options)
        expected = manuals.ids if sees else {manuals.home.pk}
        assert {hit["document_id"] for hit in sections(program)} == expected, options
        sections(program, status=200 if sees else 404, document_id=manuals.shared.pk)
        listed = program.get("/api/v1/documents").json()["results"]
        assert {each["id"] for each in listed} == expected, options
        caller = caller_of_key(create_key(person=crew.rosa, **options))
        with acting_for(crew.rosa.pk):
            answer = run_tool("document_search", {"query": QUESTION}, caller)
            assert {hit["document_id"] for hit in answer["results"]} == expected, options
            recalled = run_tool("conversation_recall", {"query": QUESTION, "documents": True}, caller)
        assert (f"/documents/{manuals.shared.pk}?" in recalled["context"]) == sees, options
        programs.append(program)
    remove_member(person=crew.mia, space_id=crew.space, member_id=crew.rosa.pk)
    for program in (*programs, signed_in(crew.rosa)):
        assert {hit["document_id"] for hit in sections(program)} == {manuals.home.pk}
        sections(program, status=404, document_id=manuals.shared.pk)
        assert [each["id"] for each in program.get("/api/v1/documents").json()["results"]] == [manuals.home.pk]


def test_list_of_documents_merges_archives_and_names_space(crew: Crew, manuals: Manuals) -> None:
    browser = signed_in(crew.rosa)
    page = browser.get("/api/v1/documents", {"limit": 1}).json()
    following = browser.get("/api/v1/documents", {"limit": 1, "before_id": page["next_before_id"]}).json()
    (first,), (other,) = page["results"], following["results"]
    assert (first["id"], first["space"]) == (manuals.shared.pk, {"id": crew.space, "name": "Boat house"})
    assert (other["id"], other["space"], following["next_before_id"]) == (manuals.home.pk, None, None)
    own = browser.get("/api/v1/documents", {"space": "mine"}).json()
    assert [each["id"] for each in own["results"]] == [manuals.home.pk]
    assert browser.get("/api/v1/documents", {"space": crew.space + 1}).status_code == 404


@pytest.mark.parametrize("sort", ["newest", "title", "size", "sections"])
def test_documents_page_pages_through_all_archives_in_order(
    crew: Crew, manuals: Manuals, sort: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, owner in (("Anchor", crew.rosa), ("Buoy", crew.shared.archive), ("Cleat", crew.rosa)):
        indexed_document(upload(owner, f"# {name}\n\n## {name}\n\n{name} " * 2, f"{name}.md"))
    monkeypatch.setattr("convmemory.documents.views.DOCUMENTS_SHOWN", 2)
    browser, address, found = signed_in(crew.rosa), f"/documents?sort={sort}", []
    while address:
        shown = flat(browser.get(address).content.decode())
        found += re.findall(r'<tr [^>]*id="document-(\d+)"', shown)
        more = re.search(r'class="more" href="(/documents[^"]+)"', shown)
        address = html.unescape(more[1]) if more else ""
    rows = Document.objects.filter(pk__in=[*map(int, found)])
    expected = {
        "newest": sorted(rows, key=lambda row: -row.pk),
        "title": sorted(rows, key=lambda row: row.title),
        "size": sorted(rows, key=lambda row: (-row.size, -row.pk)),
        "sections": sorted(rows, key=lambda row: (-row.section_count, -row.pk)),
    }[sort]
    assert (len(found), [*map(int, found)]) == (5, [row.pk for row in expected])


def test_documents_page_shows_all_archives_and_offers_each_to_members(crew: Crew, manuals: Manuals) -> None:
    browser, address = signed_in(crew.rosa), f'href="/documents/{manuals.shared.pk}"'
    shown = flat(browser.get("/documents").content.decode())
    assert address in shown
    assert f'id="document-{manuals.shared.pk}" data-role="reader"' in shown
    assert f"space={crew.space}" in shown
    assert address not in browser.get("/documents", {"space": "mine"}).content.decode()
    assert f"/documents/{manuals.home.pk}" not in browser.get("/documents", {"space": crew.space}).content.decode()
    assert "Boat house" in browser.get(f"/documents/{manuals.shared.pk}/card?row=1").content.decode()
    assert browser.get("/documents", {"space": crew.space + 1}).status_code == 404
    stranger = signed_in(make_user("stan")).get("/documents").content.decode()
    assert address not in stranger
    assert "All archives" not in stranger
    remove_member(person=crew.mia, space_id=crew.space, member_id=crew.rosa.pk)
    assert address not in browser.get("/documents").content.decode()


def test_commands_import_into_and_export_from_space_as_role_allows(crew: Crew, tmp_path: Path) -> None:
    said = ({"role": "user", "content": "Who rows?"}, {"role": "assistant", "content": "Mia."})
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, said)))
    source, target = str(tmp_path / "chat.jsonl"), tmp_path / "out.md"
    for user, reason in (("rosa", "make you a contributor"), ("stan", "There is no space")):
        if user == "stan":
            make_user("stan")
        with pytest.raises(CommandError, match=reason):
            call_command("import_conversations", source, user=user, space="Boat house")
    call_command("import_conversations", source, user="mia", space="Boat house", stdout=StringIO())
    assert Conversation.objects.filter(archive_id=crew.space).count() == 2
    call_command("export_conversations", str(target), user="rosa", space="boat house", stdout=StringIO())
    assert "Spar varnish" in target.read_text()
    assert "At home" not in target.read_text()
    with pytest.raises(CommandError, match="There is no space"):
        call_command("export_conversations", str(tmp_path / "none.md"), user="stan", space=str(crew.space))
    assert not (tmp_path / "none.md").exists()


def test_export_by_api_is_of_named_archive_alone(crew: Crew) -> None:
    for program, space, status, shown in (
        (crew.program(), "", 200, "At home"),
        (crew.program(space_ids=None), "Boat house", 200, "Spar varnish"),
        (crew.program(), str(crew.space), 404, ""),
    ):
        answer = program.get("/api/v1/conversations/export", {"space": space})
        said = answer.getvalue().decode()
        assert answer.status_code == status
        assert ("At home" in said, "Spar varnish" in said) == (shown == "At home", shown == "Spar varnish")


def test_conversation_of_space_is_not_shared_by_link(crew: Crew) -> None:
    path = f"/api/v1/conversations/{crew.shared.pk}/share_links"
    for client in (signed_in(crew.mia), Client(headers={"Authorization": f"Bearer {writing_key(crew.mia)}"})):
        refused = client.post(path, {"audience": "people"}, content_type="application/json")
        assert (refused.status_code, "copy it to your own archive" in refused.json()["detail"]) == (403, True)


def writing_key(owner: User) -> str:
    return create_key(person=owner, space_ids=None, writes_spaces=True)


@pytest.mark.usefixtures("documents_here")
def test_new_version_is_taken_from_page_of_document_in_other_archive(crew: Crew) -> None:
    document = indexed_document(upload(crew.shared.archive, "# Oars\n\nPine."))
    for user, status in ((crew.rosa, 403), (make_user("stan"), 404), (crew.mia, 302)):
        file = SimpleUploadedFile("oars.md", f"# Oars\n\nAsh, says {user.username}.".encode())
        answer = signed_in(user).post("/documents", {"file": file, "replaces": document.pk})
        assert answer.status_code == status, user
    document.refresh_from_db()
    assert (document.archive_id, document.status, document.next_name) == (crew.space, "uploaded", "oars.md")
    assert Document.objects.count() == 1


def test_events_projects_and_index_status_are_of_named_archive(crew: Crew) -> None:
    Conversation.objects.filter(pk=crew.shared.pk).update(project="/srv/boats")
    add_events(crew.shared, [EventDraft(1, "tool:error", level="ERROR", payload={"error": "the mooring broke"})])
    reading, narrow = crew.program(space_ids=[crew.space]), crew.program()
    former = crew.program(space_ids=None)
    for path, shown in (
        (f"/events?conversation_id={crew.shared.pk}&", b"the mooring broke"),
        ("/projects?", b"/srv/boats"),
        ("/index/status?", b'"turns": 1,'),
    ):
        answer = reading.get(f"/api/v1{path}space=boat house")
        assert (answer.status_code, shown in answer.content) == (200, True), path
        assert shown not in narrow.get(f"/api/v1{path.partition('?')[0]}").content
        assert narrow.get(f"/api/v1{path}space={crew.space}").status_code == 404
    remove_member(person=crew.mia, space_id=crew.space, member_id=crew.rosa.pk)
    assert former.get(f"/api/v1/events?space={crew.space}").status_code == 404
