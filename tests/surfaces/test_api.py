"""The HTTP API: shapes, errors as problem JSON, keys, and the caller's own data only."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key, revoke_key
from convmemory.accounts.models import ApiKey
from convmemory.conversations.filters import Filters
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, EventDraft
from convmemory.conversations.models import Conversation
from convmemory.core.cursors import encode_cursor
from search.adapters.conversations import index_conversation
from search.query import SearchQuery
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import Api, problem_of
from tests.support.importing import run_at_once

pytestmark = pytest.mark.django_db

SNAPSHOT = Path(__file__).with_name("openapi.json")
MESSAGES = [
    {"role": "user", "content": "what is the capital of Peru?", "name": "Ada"},
    {"role": "assistant", "content": [{"type": "text", "text": "Lima."}]},
]


def test_conversation_is_stored_read_changed_and_deleted(api: Api) -> None:
    created = api.send("POST", "/conversations", {"title": "Geography", "agent": "tutor", "messages": MESSAGES})
    assert created.status_code == 201
    number = created.json()["id"]
    shown = api.get(f"/conversations/{number}").json()
    assert (shown["title"], shown["message_count"], shown["turn_count"]) == ("Geography", 2, 1)
    assert shown["url"] == f"/conversations/{number}"
    messages = api.get(f"/conversations/{number}/messages", turn=0).json()["results"]
    assert [m["parts"][0]["text"] for m in messages] == ["what is the capital of Peru?", "Lima."]
    assert messages[0]["name"] == "Ada"
    more = api.send("POST", f"/conversations/{number}/messages", {"messages": MESSAGES})
    assert [m["turn_number"] for m in more.json()["results"]] == [1, 1]
    changed = api.send("PATCH", f"/conversations/{number}", {"title": "Capitals", "archived": True}).json()
    assert (changed["title"], changed["archived_at"] is None) == ("Capitals", False)
    assert api.get("/conversations").json()["results"] == []
    assert len(api.get("/conversations", archived=True).json()["results"]) == 1
    assert api.send("DELETE", f"/conversations/{number}", "").status_code == 204
    assert not Conversation.objects.exists()


def test_messages_outside_of_turns_are_read_with_their_neighbour(api: Api) -> None:
    told = [{"role": "assistant", "content": "Welcome!"}, *MESSAGES, {"role": "user", "content": "Still there?"}]
    number = api.send("POST", "/conversations", {"messages": told}).json()["id"]
    messages = api.get(f"/conversations/{number}/messages", turn=0).json()["results"]
    assert [(m["position"], m["turn_number"], m["superseded"]) for m in messages] == [
        (0, None, False), (1, 0, False), (2, 0, False), (3, None, False)
    ]  # fmt: skip


def test_message_says_what_kinds_of_content_it_has(api: Api) -> None:
    blocks = [
        {"type": "thinking", "thinking": "Peru has one."},
        {"type": "text", "text": "Lima."},
        {"type": "tool_use", "id": "t", "name": "atlas", "input": {"country": "Peru"}},
    ]
    messages = [MESSAGES[0], {"role": "assistant", "content": blocks}]
    number = api.send("POST", "/conversations", {"messages": messages}).json()["id"]
    asked, answered = (m["content_metadata"] for m in api.get(f"/conversations/{number}/messages").json()["results"])
    assert asked == {"has_thinking": False, "has_tool_calls": False, "characters": {"text": 28}}
    assert answered == {
        "has_thinking": True, "has_tool_calls": True, "characters": {"thinking": 13, "text": 5, "tool_call": 4},
    }  # fmt: skip


def test_search_answers_in_documented_shape(api: Api, owner: User) -> None:
    conversation = make_conversation(owner, exchange(("what is the capital of Peru?", "Lima.")), title="Geography")
    index_conversation(conversation_id=conversation.pk)
    answer = api.get("/conversations/search", query="capital of Peru").json()
    (hit,) = answer["results"]
    assert answer["next_cursor"] is None
    assert set(hit) >= {
        "conversation_id", "conversation_title", "turn_number", "message_id", "similarity", "score",
        "user_question", "passage", "url", "matched", "created_at", "agent",
    }  # fmt: skip
    assert hit["url"] == f"/conversations/{conversation.pk}?turn=0"
    assert 0 < hit["similarity"] <= 1
    assert api.get("/index/status").json()["embedded_turns"] == 1


def test_turn_is_marked_listed_and_unmarked(api: Api, owner: User) -> None:
    conversation = make_conversation(owner, exchange(("when is the bus?", "At nine."), ("and back?", "At ten.")))
    path = f"/conversations/{conversation.pk}"
    row = {"turn_number": 1, "kind": "outdated", "note": "new timetable"}
    given = {"kind": "outdated", "note": " new\n\x00timetable "}
    assert api.send("POST", f"{path}/turns/1/mark", given).json() == row
    assert api.get(f"{path}/marks").json() == {"results": [row]}
    found = {hit["turn_number"]: hit["mark"] for hit in api.get("/search", query="and back?").json()["results"]}
    assert found[1] == {"kind": "outdated", "note": "new timetable"}
    assert api.client.delete(f"/api/v1{path}/turns/1/mark").status_code == 204
    assert api.get(f"{path}/marks").json() == {"results": []}
    assert "its turns are 0 to 1" in problem_of(api.send("POST", f"{path}/turns/{10**20}/mark", given), 404)
    assert "wrong" in problem_of(api.send("POST", f"{path}/turns/1/mark", {"kind": "silly"}), 422)


def test_lists_are_paged_by_cursor(api: Api, owner: User) -> None:
    for number in range(5):
        make_conversation(owner, title=f"number {number}")
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        page = api.get("/conversations", limit=2, cursor=cursor).json()
        seen += [row["id"] for row in page["results"]]
        cursor = page["next_cursor"]
    assert len(seen) == len(set(seen)) == 5
    assert problem_of(api.get("/conversations", limit=2, cursor="nonsense"), 422)


def test_event_logs_are_searched_by_type_tool_level_and_conversation(api: Api, owner: User) -> None:
    events = [
        EventDraft(line_number=1, type="tool:pre", tool="bash", level="INFO"),
        EventDraft(line_number=2, type="tool:pre", tool="read", level="INFO"),
        EventDraft(line_number=3, type="error", level="ERROR"),
    ]
    draft = ConversationDraft(messages=[], source="amplifier", source_id="s1", events=events)
    number = ingest.sync_conversation(caller=Caller.of(owner), draft=draft).conversation_id
    counts = {
        "type": len(api.get("/events", type="tool:pre").json()["results"]),
        "tool": len(api.get("/events", tool="bash", conversation_id=number).json()["results"]),
        "level": len(api.get("/events", level="error").json()["results"]),
    }
    assert counts == {"type": 2, "tool": 1, "level": 1}
    assert Api(make_user()).get("/events").json()["results"] == []


def test_event_logs_are_searched_by_words_turn_and_time(api: Api, owner: User) -> None:
    day = datetime(2026, 3, 1, tzinfo=UTC)
    payloads: list[dict[str, Any]] = [
        {"path": "/srv/garden/plan.py", "exit_code": 1},
        {"message": "Permission denied\nfor gardener"},
        {"nested": {"list": ["tulip", {"deep": "quokka_bed"}]}},
    ]
    events = [
        EventDraft(line_number=n, type="tool:post", turn_number=n, created_at=day + timedelta(days=n), payload=payload)
        for n, payload in enumerate(payloads)
    ]
    for user in (owner, make_user()):
        draft = ConversationDraft(messages=[], source="amplifier", source_id="s1", events=events)
        ingest.sync_conversation(caller=Caller.of(user), draft=draft)

    def lines(**query: Any) -> list[int]:
        return [event["line_number"] for event in api.get("/events", **query).json()["results"]]

    assert lines(query="plan.py") == lines(query="GARDEN plan") == lines(query="exit_code") == [0]
    assert lines(query="garden") == [0, 1]  # a word may go on
    assert lines(query="quokka") == lines(query="deep tulip") == [2]
    assert lines(query="tool post") == [0, 1, 2]
    assert lines(query="tulip garden") == lines(query="arden") == []
    assert lines(turn=1) == [1]
    assert lines(after="2026-03-02T00:00:00Z") == [1, 2]
    assert lines(before="2026-03-02T00:00:00Z", query="garden") == [0, 1]
    assert problem_of(api.get("/events", query="?!"), 422)
    assert problem_of(api.get("/events", after="2026-03-03T00:00:00Z", before="2026-03-02T00:00:00Z"), 422)


def test_upload_is_imported_and_reported(api: Api, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    run_at_once(monkeypatch)
    lines = "\n".join(json.dumps(message) for message in MESSAGES) + "\nnot json\n"
    for added in (2, 0):
        file = SimpleUploadedFile("chat.jsonl", lines.encode())
        answer = api.client.post("/api/v1/imports", {"file": file})
        assert answer.status_code == 200, answer.content
        (report,) = answer.json()["files"]
        assert report["added"] == added
        assert "chat.jsonl:3" in json.dumps(report)
    assert Conversation.objects.get().archive_id == owner.pk


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer cvm_wrong"}, {"Authorization": "Basic x"}])
def test_request_without_valid_key_gets_401(header: dict[str, str]) -> None:
    response = Client(headers=header).get("/api/v1/conversations")
    assert "create_api_key" in problem_of(response, 401)
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("value", ["Bearer cvm_wrong", "Bearer", "cvm_wrong", "Basic x"])
def test_wrong_key_gets_401_despite_session(owner: User, value: str) -> None:
    client = Client(enforce_csrf_checks=True, headers={"Authorization": value})
    for sign_in in (False, True):
        if sign_in:
            client.force_login(owner)
        assert problem_of(client.get("/api/v1/conversations"), 401)
        posted = client.post("/api/v1/conversations", {"title": "x"}, content_type="application/json")
        assert "create_api_key" in problem_of(posted, 401)
    assert not Conversation.objects.exists()


def test_revoked_key_gets_401(api: Api, owner: User) -> None:
    assert api.get("/conversations").status_code == 200
    revoke_key(person=owner, key_id=ApiKey.objects.get().pk)
    assert problem_of(api.get("/conversations"), 401)


def test_key_of_inactive_user_gets_401(api: Api, owner: User) -> None:
    User.objects.update(is_active=False)
    assert problem_of(api.get("/conversations"), 401)


def test_keys_are_stored_hashed(owner: User) -> None:
    key = create_key(person=owner)
    assert key not in str(ApiKey.objects.values().get())


def test_session_cookie_works_and_needs_csrf_token_to_write(owner: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    assert client.get("/api/v1/conversations").status_code == 200
    refused = client.post("/api/v1/conversations", {"title": "x"}, content_type="application/json")
    assert refused.status_code == 403
    assert not Conversation.objects.exists()


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_foreign_and_unknown_conversations_answer_alike(api: Api, method: str) -> None:
    foreign = make_conversation(make_user(), exchange(("a question", "an answer"))).pk
    answers = []
    for number in (foreign, foreign + 1000, 10**30):
        detail = problem_of(api.send(method, f"/conversations/{number}", {} if method == "PATCH" else ""), 404)
        answers.append(detail.replace(str(number), "N"))
    assert len(set(answers)) == 1
    assert api.get(f"/conversations/{foreign}/messages").status_code == 404
    assert api.send("POST", f"/conversations/{foreign}/messages", {"messages": MESSAGES}).status_code == 404
    assert Conversation.objects.filter(pk=foreign).exists()


def test_search_sees_only_callers_turns(api: Api, owner: User) -> None:
    for user in (owner, make_user()):
        conversation = make_conversation(user, exchange(("the same secret text", "indeed")))
        index_conversation(conversation_id=conversation.pk)
    for mode in ("hybrid", "semantic", "full_text"):
        hits = api.get("/conversations/search", query="the same secret text", mode=mode).json()["results"]
        assert len(hits) == 1
        assert Conversation.objects.get(pk=hits[0]["conversation_id"]).archive_id == owner.pk


@pytest.mark.parametrize(
    "query",
    [{"query": "x"}, {"query": "x" * 10_001}, {}, {"query": "egg", "limit": 0}, {"query": "egg", "limit": 51},
     {"query": "egg", "mode": "magic"}, {"query": "egg", "scope": "dreams"}, {"query": "egg", "cursor": "!"},
     {"query": "egg", "after": "yesterday"}, {"query": "egg", "after": "2026-02-01", "before": "2026-01-01"}],
)  # fmt: skip
def test_bad_searches_are_explained(api: Api, query: dict[str, Any]) -> None:
    assert len(problem_of(api.get("/conversations/search", **query), 422)) > 10


@pytest.mark.parametrize("place", [[], ["x", 1], ["2026-01-01", "1"], [None, None], [7, 7, 7]])
def test_forged_cursors_are_explained(api: Api, owner: User, place: list[Any]) -> None:
    of_list = encode_cursor({"list": "conversations", "filters": repr(Filters())}, place)
    of_search = encode_cursor(SearchQuery(text="egg", has_operators=True).identity, place)
    assert "cursor" in problem_of(api.get("/conversations", cursor=of_list), 422)
    assert "cursor" in problem_of(api.get("/conversations/search", query="egg", cursor=of_search), 422)
    assert "cursor" in problem_of(api.send("POST", "/tools/list_conversations", {"cursor": of_list}), 422)
    api.client.force_login(owner)
    assert api.client.get("/", {"cursor": of_list}).status_code == 422


def test_cursor_behind_end_finds_nothing(api: Api) -> None:
    made = encode_cursor({"list": "conversations", "filters": repr(Filters())}, ["2026-01-01T00:00:00+00:00", 10**30])
    assert api.get("/conversations", cursor=made).json() == {"results": [], "next_cursor": None}


@pytest.mark.parametrize(
    "messages",
    [[{"content": "no role"}], [{"role": "wizard"}], ["text"], [{"role": "user", "content": "x", "created_at": "x"}]],
)
def test_bad_messages_are_named_and_nothing_is_stored(api: Api, messages: Any) -> None:
    answer = api.send("POST", "/conversations", {"messages": MESSAGES + messages})
    assert problem_of(answer, 422).startswith("body.messages.2: ")
    assert [error["place"] for error in answer.json()["errors"]] == ["body.messages.2"]
    assert not Conversation.objects.exists()


def test_malformed_json_is_bad_request(api: Api) -> None:
    assert problem_of(api.send("POST", "/conversations", '{"title": '), 400)


def test_appending_to_conversation_that_is_being_answered_conflicts(api: Api, owner: User) -> None:
    conversation = make_conversation(owner, exchange(("a", "b")))
    Conversation.objects.update(status="processing", processing_until=timezone.now() + timedelta(minutes=1))
    answer = api.send("POST", f"/conversations/{conversation.pk}/messages", {"messages": MESSAGES})
    assert "try again" in problem_of(answer, 409)


def test_request_that_is_too_large_is_refused(api: Api, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    body = {"messages": [{"role": "user", "content": "x" * 2000}]}
    assert "MAX_REQUEST_MB" in problem_of(api.send("POST", "/conversations", body), 413)


def test_upload_that_is_too_large_is_refused(api: Api, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_at_once(monkeypatch)
    settings.MAX_UPLOAD_MB = 0
    answer = api.client.post("/api/v1/imports", {"file": SimpleUploadedFile("a.jsonl", b"{}")})
    assert "MAX_UPLOAD_MB" in problem_of(answer, 413)


def test_health_needs_no_key(client: Client) -> None:
    for path in ("/health", "/ready", "/api/v1/health", "/api/v1/ready"):
        assert client.get(path).json()["status"] == "ok"


def test_openapi_document_is_one_on_record(client: Client, request: pytest.FixtureRequest) -> None:
    document = client.get("/api/v1/openapi.json").json()
    if not SNAPSHOT.exists():
        SNAPSHOT.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        pytest.fail(f"{SNAPSHOT.name} did not exist and was written: look at it, then run again")
    recorded = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    assert document == recorded, f"the API changed: look at the change, then delete {SNAPSHOT.name} and run again"


def test_docs_page_uses_no_foreign_host(client: Client) -> None:
    page = client.get("/api/v1/docs").content.decode()
    assert "swagger" in page.lower()
    assert "https://" not in page.replace("https://django-ninja.dev", "")
