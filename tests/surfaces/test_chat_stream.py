"""The stream over real HTTP: a reply in events, its tools, errors, stopping; foreign conversations not found."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.chat.agents import create_agent
from convmemory.chat.models import Reply
from convmemory.chat.replies import Pulse
from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.chat_server import Call, ChatServer, Cut, Hold, Pause, Raw, Say, Script, Think, calls, fails, says
from tests.support.chatting import Talker, names, said
from tests.support.pooling import connections_in_use
from tests.support.site import running_site

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ada(site: str, owner: User) -> Iterator[Talker]:
    talker = Talker(site, owner)
    yield talker
    talker.close()


def eventually(condition: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.02)
    pytest.fail(f"never happened: {what}")


def test_reply_streams_is_stored_and_numbered(ada: Talker, endpoint: ChatServer) -> None:
    endpoint.scripts.append(Script((Think("Peru, so"), Say("Li"), Say("ma."))))
    number = ada.new_conversation()
    events = ada.ask(number, "What is the capital of Peru?")
    assert names(events) == ["message_started", "thinking", "text", "turn", "done"]
    assert said(events) == "Lima."
    assert events[-2][1] == {"turn_number": 0, "url": f"/conversations/{number}?turn=0"}
    question, answer = ada.messages(number)
    assert question["parts"] == [{"type": "text", "text": "What is the capital of Peru?"}]
    assert [part["type"] for part in answer["parts"]] == ["thinking", "text"]
    assert (question["turn_number"], answer["turn_number"], answer["model"]) == (0, 0, "test-model")
    shown = ada.conversation(number)
    assert (shown["status"], shown["title"]) == ("idle", "What is the capital of Peru?")
    assert endpoint.requests[0]["messages"] == [{"role": "user", "content": "What is the capital of Peru?"}]
    ada.ask(number, "And of Chile?")
    assert [m["content"] for m in endpoint.requests[1]["messages"]] == [
        "What is the capital of Peru?", "Lima.", "And of Chile?",
    ]  # fmt: skip
    assert ada.conversation(number)["turn_count"] == 2


def test_tool_runs_as_conversations_owner_and_its_result_goes_back(
    ada: Talker, endpoint: ChatServer, owner: User
) -> None:
    mine = make_conversation(owner, exchange(("how do I feed a sourdough starter?", "Once a week.")))
    theirs = make_conversation(make_user(), exchange(("how do I feed a sourdough starter?", "Never.")))
    for conversation in (mine, theirs):
        index_conversation(conversation_id=conversation.pk)
    endpoint.scripts.extend([calls("ConversationSearch", {"query": "feeding the sourdough starter"}), says("Weekly.")])
    number = ada.new_conversation()
    events = ada.ask(number, "How often do I feed it?")
    assert names(events) == ["message_started", "tool_call", "tool_result", "text", "turn", "done"]
    result = next(data for name, data in events if name == "tool_result")
    assert not result["is_error"]
    assert f"/conversations/{mine.pk}?turn=0" in result["text"]
    assert f"/conversations/{theirs.pk}?" not in result["text"]
    assert [message["role"] for message in ada.messages(number)] == ["user", "assistant", "tool", "assistant"]
    assert {message["turn_number"] for message in ada.messages(number)} == {0}
    _asked, called, answered = endpoint.requests[1]["messages"]
    assert called["tool_calls"][0]["function"]["name"] == "ConversationSearch"
    assert (answered["role"], answered["tool_call_id"]) == ("tool", called["tool_calls"][0]["id"])
    assert "ConversationSearch" in [tool["function"]["name"] for tool in endpoint.requests[0]["tools"]]


def test_recall_excludes_messages_sent_to_model(ada: Talker, endpoint: ChatServer, owner: User) -> None:
    bread = ("how do I feed a sourdough starter?", "Once a week, with rye flour.")
    here, elsewhere = (make_conversation(owner, exchange(bread)) for _ in range(2))
    for conversation in (here, elsewhere):
        index_conversation(conversation_id=conversation.pk)
    endpoint.scripts.extend([calls("conversation_recall", {"query": "feeding the sourdough starter"}), says("Weekly.")])
    events = ada.ask(here.pk, "What did I ask before?")
    result = next(data for name, data in events if name == "tool_result")
    assert f"/conversations/{elsewhere.pk}?turn=0" in result["text"]
    assert f"/conversations/{here.pk}?" not in result["text"]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (calls("ConversationSearch", '{"query": '), "not JSON"),
        (calls("ConversationSearch", "[1]"), "not a JSON object"),
        (calls("ConversationSearch", {"query": "x", "owner": 1}), "owner"),
        (calls("launch_rocket", {}), "no tool 'launch_rocket'"),
        (calls("read_conversation", {"conversation_id": 4711}), "4711"),
    ],
)
def test_failed_tool_call_becomes_error_result(ada: Talker, endpoint: ChatServer, script: Script, told: str) -> None:
    endpoint.scripts.extend([script, says("I see.")])
    number = ada.new_conversation()
    events = ada.ask(number, "Try it")
    assert names(events)[-3:] == ["text", "turn", "done"]
    result = next(data for name, data in events if name == "tool_result")
    assert result["is_error"]
    assert told in result["text"]
    assert told in endpoint.requests[1]["messages"][-1]["content"]


def test_tool_that_agent_does_not_have_is_not_run(ada: Talker, endpoint: ChatServer, owner: User) -> None:
    agent = create_agent(caller=Caller.of(owner), values={"name": "Librarian", "tools": ["list_conversations"]})
    endpoint.scripts.extend([calls("ConversationSearch", {"query": "sourdough"}), says("I see.")])
    events = ada.ask(ada.new_conversation(), "Try it", agent_id=agent.pk)
    result = next(data for name, data in events if name == "tool_result")
    assert result["is_error"]
    assert result["text"] == "There is no tool 'ConversationSearch' here: use list_conversations."
    assert [tool["function"]["name"] for tool in endpoint.requests[0]["tools"]] == ["list_conversations"]


def test_several_calls_of_one_reply_are_all_answered(ada: Talker, endpoint: ChatServer) -> None:
    two = (Call("list_conversations", "{}", id="a", index=0), Call("nothing", "{}", id="b", index=1))
    endpoint.scripts.extend([Script(two), says("Done.")])
    ada.ask(ada.new_conversation(), "Do both")
    assert [m.get("tool_call_id") for m in endpoint.requests[1]["messages"]] == [None, None, "a", "b"]


def test_model_that_never_stops_calling_is_stopped(ada: Talker, endpoint: ChatServer) -> None:
    endpoint.scripts.extend([calls("list_conversations", {})] * 20)
    number = ada.new_conversation()
    events = ada.ask(number, "Go on")
    assert events[-1][0] == "error"
    assert len(endpoint.requests) == 9
    assert endpoint.requests[-1]["tool_choice"] == "none"
    assert ada.conversation(number)["turn_count"] == 1, "what was received is kept"
    endpoint.scripts.clear()
    assert names(ada.ask(number, "And now?"))[-1] == "done"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (fails(401, "Incorrect API key"), "CHAT_API_KEY"),
        (fails(404, "no such model"), "CHAT_MODEL"),
        (fails(500, "boom"), "boom"),
        (fails(400, "too many tokens"), "too many tokens"),
        (Script((Raw(b"data: {oops\n\n"),)), "unreadable"),
        (Script((Raw(b"data: [1]\n\n"),)), "unreadable"),
        (Script((Raw(b'data: {"choices": [{"delta": {"content": 7}}]}\n\n'),)), "unreadable"),
        (Script((Raw(b'data: {"error": {"message": "overloaded"}}\n\n'),)), "overloaded"),
        (Script(()), "empty reply"),
        (Script((Cut(),)), "cannot be reached"),
    ],
)
def test_endpoint_failure_is_reported_and_keeps_question(
    ada: Talker, endpoint: ChatServer, script: Script, told: str
) -> None:
    endpoint.scripts.append(script)
    number = ada.new_conversation()
    events = ada.ask(number, "Are you there?")
    assert names(events) == ["message_started", "error"]
    assert told in events[-1][1]["detail"]
    shown = ada.conversation(number)
    assert (shown["status"], shown["message_count"], shown["turn_count"]) == ("failed", 1, 0)
    assert ada.last_reply(number)["error"] == events[-1][1]["detail"]
    events = ada.ask(number, "And now?")
    assert names(events)[-1] == "done"
    assert {message["turn_number"] for message in ada.messages(number)} == {0}, "both questions are one turn"


def text_chunk(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


def test_reply_that_reaches_its_limit_of_tokens_says_so(ada: Talker, endpoint: ChatServer) -> None:
    end = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}\n\ndata: [DONE]\n\n'
    endpoint.scripts.append(Script((Say("Half a"), Raw(end))))
    number = ada.new_conversation()
    remark = ada.ask(number, "Tell me")[-1][1]["remark"]
    assert remark.startswith("The reply was cut at its limit of ")
    assert ada.last_reply(number)["error"] == remark


def test_reply_without_end_is_cut_with_note_and_stored(ada: Talker, endpoint: ChatServer) -> None:
    megabyte = text_chunk("x" * 100) * 7_000
    endpoint.scripts.append(Script((Raw(megabyte),) * 100))
    number = ada.new_conversation()
    events = ada.ask(number, "Go on for ever.")
    note = "The reply was cut after 1,000,000 characters, which is as much as one reply may have."
    assert names(events)[-3:] == ["text", "turn", "done"]
    assert events[-1][1]["remark"] == ada.last_reply(number)["error"] == note
    assert said(events) == "x" * 1_000_000
    stored = Conversation.objects.get(pk=number).messages.get(role="assistant")
    assert [len(part["text"]) for part in stored.parts] == [1_000_000]


@pytest.mark.parametrize(
    ("steps", "note"),
    [
        ((Raw(b"data: "), *(Raw(b"x" * 1024**2),) * 12), "cut at a line of more than 8 MB"),
        ((Raw(b"data: x\n" * 100_000),) * 4, "cut at an event of more than 8 MB"),
        ((Raw(b"data: " + b"[" * 200_000 + b"\n\n"),), "unreadable"),
        (tuple(Call("ConversationSearch", "{}", f"c{at}", 10**9 + at) for at in range(300)), "after 100 tool calls"),
    ],
    ids=["line", "event", "nesting", "calls"],
)
def test_stream_over_limit_names_limit(ada: Talker, endpoint: ChatServer, steps: tuple[Any, ...], note: str) -> None:
    endpoint.scripts.extend([Script(steps), Script((Say("Hello."), *steps))])
    number = ada.new_conversation()
    events = ada.ask(number, "Go on.")
    assert names(events) == ["message_started", "error"]
    assert note in events[-1][1]["detail"]
    assert [message["role"] for message in ada.messages(number)] == ["user"]
    events = ada.ask(number, "And now?")
    assert said(events) == "Hello."
    assert note in (events[-1][1].get("remark") or events[-1][1]["detail"])
    assert [message["role"] for message in ada.messages(number)] == ["user", "user", "assistant"]


def test_too_many_requests_say_when_to_try_again(ada: Talker, endpoint: ChatServer) -> None:
    endpoint.scripts.append(fails(429, "slow down", retry_after="17"))
    events = ada.ask(ada.new_conversation(), "Hi")
    assert events[-1][1]["retry_after_s"] == 17
    assert len(endpoint.requests) == 1


def test_unreachable_endpoint_is_reported(ada: Talker, settings: Settings) -> None:
    settings.CHAT_BASE_URL = "http://127.0.0.1:9/v1"
    events = ada.ask(ada.new_conversation(), "Hi")
    assert "cannot be reached" in events[-1][1]["detail"]


@pytest.mark.parametrize(
    ("last", "told"),
    [(Cut(), "cannot be reached"), (Pause(30), "no answer in time")],
)
def test_partial_text_of_broken_reply_is_kept_as_failed(
    ada: Talker, endpoint: ChatServer, settings: Settings, last: Any, told: str
) -> None:
    if isinstance(last, Pause):
        settings.CHAT_TIMEOUT_S = 3  # less than the pause, and time enough for what comes before it
    endpoint.scripts.append(Script((Say("Half of "), Say("it"), last)))
    number = ada.new_conversation()
    events = ada.ask(number, "Tell me")
    assert said(events) == "Half of it"
    assert told in events[-1][1]["detail"]
    assert ada.messages(number)[-1]["parts"][0]["text"] == "Half of it"
    assert ada.conversation(number)["turn_count"] == 1
    assert ada.last_reply(number)["status"] == "failed"


def test_unreadable_chunks_are_skipped_and_counted_in_remark(ada: Talker, endpoint: ChatServer) -> None:
    number_as_text = b'data: {"choices": [{"delta": {"content": 7}}]}\n\n'
    steps = (Say("Half of "), Raw(b"data: {oops\n\n"), Say("it"), Raw(number_as_text))
    endpoint.scripts.append(Script(steps))
    number = ada.new_conversation()
    events = ada.ask(number, "Tell me")
    assert (said(events), names(events)[-1]) == ("Half of it", "done")
    remark = "The reply contained unreadable events, which were skipped: 2."
    assert events[-1][1]["remark"] == ada.last_reply(number)["error"] == remark
    assert ada.last_reply(number)["status"] == "done"


def test_stream_without_end_counts_as_broken(ada: Talker, endpoint: ChatServer) -> None:
    endpoint.scripts.append(Script((Say("Half"),), has_end=False))
    number = ada.new_conversation()
    assert "before it was complete" in ada.ask(number, "Tell me")[-1][1]["detail"]
    assert ada.messages(number)[-1]["parts"][0]["text"] == "Half"


def test_too_long_question_is_reported_and_kept(ada: Talker, endpoint: ChatServer, settings: Settings) -> None:
    settings.CHAT_CONTEXT_WINDOW = 8_000
    number = ada.new_conversation()
    events = ada.ask(number, "many words " * 20_000)
    assert "window holds 8,000" in events[-1][1]["detail"]
    assert endpoint.requests == []
    assert ada.conversation(number)["message_count"] == 1


def test_left_out_messages_are_announced_by_context_event(
    ada: Talker, endpoint: ChatServer, settings: Settings
) -> None:
    settings.CHAT_CONTEXT_WINDOW = 10_000
    number = ada.new_conversation()
    pairs = [{"role": role, "content": "some words " * 300} for _ in range(20) for role in ("user", "assistant")]
    assert ada.post(f"/conversations/{number}/messages", messages=pairs).status_code == 201
    events = ada.ask(number, "And now?")
    assert names(events) == ["message_started", "context", "text", "turn", "done"]
    left_out = events[1][1]["left_out"]
    assert 0 < left_out < 40
    assert len(endpoint.requests[0]["messages"]) == 41 - left_out
    assert ada.last_reply(number)["context"]["left_out"] == left_out


@pytest.mark.parametrize(
    ("message", "status", "told"),
    [("", 422, "empty"), ("  \n ", 422, "empty"), ("x" * 5_000_000, 413, "1,000,000"), (None, 422, "message")],
)
def test_refused_chat_message_stores_nothing(ada: Talker, message: str | None, status: int, told: str) -> None:
    number = ada.new_conversation()
    response = ada.post(f"/conversations/{number}/stream", message=message)
    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/problem+json"
    assert told in response.json()["detail"]
    shown = ada.conversation(number)
    assert (shown["status"], shown["message_count"]) == ("idle", 0)


def test_without_endpoint_answer_says_how_to_set_one_up(ada: Talker, settings: Settings) -> None:
    settings.CHAT_MODEL = ""
    number = ada.new_conversation()
    response = ada.post(f"/conversations/{number}/stream", message="Hi")
    assert response.status_code == 503
    assert "CHAT_BASE_URL" in response.json()["detail"]
    assert ada.conversation(number)["message_count"] == 0


@pytest.fixture
def held(endpoint: ChatServer) -> Iterator[threading.Event]:
    """The next reply says `Once`, and the rest when this is set."""
    release = threading.Event()
    endpoint.scripts.append(Script((Say("Once"), Hold(release), Say(" upon a time."))))
    yield release
    release.set()


def test_second_message_meanwhile_is_refused(ada: Talker, held: threading.Event) -> None:
    number = ada.new_conversation()
    with ada.streaming(number, "First") as events:
        assert [next(events)[0], next(events)[0]] == ["message_started", "text"]
        assert ada.conversation(number)["status"] == "processing"
        second = ada.post(f"/conversations/{number}/stream", message="Second")
        assert second.status_code == 409
        appended = ada.post(f"/conversations/{number}/messages", messages=[{"role": "user", "content": "Third"}])
        assert appended.status_code == 409
        held.set()
        assert [name for name, _ in events][-1] == "done"
    assert [message["role"] for message in ada.messages(number)] == ["user", "assistant"]


def test_stopped_reply_is_kept_and_endpoint_is_left(ada: Talker, endpoint: ChatServer, held: threading.Event) -> None:
    gone = endpoint.disconnects
    number = ada.new_conversation()
    with ada.streaming(number, "Tell me a story") as events:
        assert [next(events)[0], next(events)[0]] == ["message_started", "text"]
        assert ada.post(f"/conversations/{number}/stop").status_code == 200
        rest = list(events)
    assert names(rest) == ["turn", "done"]
    assert rest[-1][1]["status"] == "stopped"
    assert ada.messages(number)[-1]["parts"][0]["text"] == "Once"
    assert ada.conversation(number)["status"] == "idle"
    eventually(lambda: endpoint.disconnects > gone, "the endpoint was left")
    assert ada.post(f"/conversations/{number}/stop").status_code == 404


def test_stop_requested_by_another_process_ends_reply(ada: Talker, held: threading.Event) -> None:
    number = ada.new_conversation()
    with ada.streaming(number, "Tell me a story") as events:
        assert [next(events)[0], next(events)[0]] == ["message_started", "text"]
        Reply.objects.update(stop_requested=True)
        assert names(list(events)) == ["turn", "done"]


def test_reply_being_written_keeps_no_database_connection(
    ada: Talker, endpoint: ChatServer, held: threading.Event, owner: User
) -> None:
    """As many streams as the pool has connections would else be all that the server can do."""
    endpoint.scripts.append(endpoint.scripts[0])
    browser = signed_in(owner)
    token = "c" * 32
    cookies = "; ".join(f"{name}={cookie.value}" for name, cookie in browser.cookies.items())
    headers = {"Cookie": f"{cookies}; csrftoken={token}", "X-CSRFToken": token, "Accept": "text/event-stream"}
    with (
        ada.streaming(ada.new_conversation(), "By key") as by_key,
        ada.http.stream("POST", "/chat/send", data={"message": "By session"}, headers=headers) as by_session,
    ):
        assert next(by_key)[0] == "message_started"
        assert next(by_session.iter_lines()) == "event: message_started"
        eventually(lambda: connections_in_use() == 0, "both streams have given their connections back")


def test_client_that_goes_away_does_not_lose_reply(ada: Talker, held: threading.Event) -> None:
    number = ada.new_conversation()
    with ada.streaming(number, "Tell me a story") as events:
        assert [next(events)[0], next(events)[0]] == ["message_started", "text"]
    held.set()
    eventually(lambda: ada.conversation(number)["status"] == "idle", "the reply was finished")
    assert ada.messages(number)[-1]["parts"][0]["text"] == "Once upon a time."
    assert ada.last_reply(number)["status"] == "done"


@pytest.mark.parametrize("trash_days", [0, 30])
def test_conversation_deleted_meanwhile_ends_its_reply(
    ada: Talker, held: threading.Event, settings: Settings, trash_days: int
) -> None:
    settings.CHAT_LEASE_S = 2
    settings.TRASH_DAYS = trash_days
    number = ada.new_conversation()
    with ada.streaming(number, "Tell me a story") as events:
        assert [next(events)[0], next(events)[0]] == ["message_started", "text"]
        assert ada.http.delete(f"/api/v1/conversations/{number}").status_code == 204
        assert list(events)[-1][1]["status"] == "lost"
    assert Reply.objects.exists() == (trash_days > 0)


def test_reply_whose_lease_ran_out_is_taken_over_and_its_writer_stores_nothing(
    ada: Talker, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = ada.new_conversation()
    with ada.streaming(number, "Tell me a story") as events:
        assert [next(events)[0], next(events)[0]] == ["message_started", "text"]
        eventually(lambda: Reply.objects.get().partial != [], "what was received is kept")
        with monkeypatch.context() as patch:  # the writer, which lives, must not renew its lease meanwhile
            patch.setattr("convmemory.chat.live.beat", lambda job, received: Pulse.GO_ON)
            Conversation.objects.update(processing_until=timezone.now() - timedelta(seconds=1))
            assert names(ada.ask(number, "Are you there?"))[-1] == "done"
        held.set()
        assert list(events)[-1][1]["status"] == "lost"
    texts = [message["parts"][0]["text"] for message in ada.messages(number)]
    assert texts == ["Tell me a story", "Once", "Are you there?", "You said: Are you there?"]
    assert [message["turn_number"] for message in ada.messages(number)] == [0, 0, 1, 1]
    assert [reply["status"] for reply in ada.get(f"/conversations/{number}/replies")["results"]] == [
        "done", "interrupted",
    ]  # fmt: skip


def test_server_that_stops_keeps_what_was_received(endpoint: ChatServer, held: threading.Event, owner: User) -> None:
    with running_site() as address:
        talker = Talker(address, owner)
        number = talker.new_conversation()
        with talker.streaming(number, "Tell me a story") as events:
            assert [next(events)[0], next(events)[0]] == ["message_started", "text"]
        talker.close()
    stored = Conversation.objects.get(pk=number)
    assert (stored.status, stored.turn_count) == ("idle", 1)
    assert stored.messages.order_by("position").last().parts[0]["text"] == "Once"  # type: ignore[union-attr]
    assert Reply.objects.get().status == "interrupted"


def test_other_users_cannot_chat_stop_or_read_conversation(ada: Talker, site: str, held: threading.Event) -> None:
    stranger = Talker(site, make_user())
    number = ada.new_conversation()
    with ada.streaming(number, "Tell me a story") as events:
        assert [next(events)[0], next(events)[0]] == ["message_started", "text"]
        for action, fields in (("stream", {"message": "Hi"}), ("stop", {})):
            theirs, unknown = (
                stranger.post(f"/conversations/{conversation}/{action}", **fields)
                for conversation in (number, number + 1)
            )
            assert theirs.status_code == unknown.status_code == 404
        assert stranger.http.get(f"/api/v1/conversations/{number}/replies").status_code == 404
        held.set()
        assert list(events)[-1][0] == "done"
    path = f"/api/v1/conversations/{number}/replies"
    assert ada.http.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
    stranger.close()


def test_question_and_its_answer_are_announced_once(ada: Talker, owner: User) -> None:
    from convmemory.conversations.signals import conversation_changed

    heard: list[int] = []

    def listen(sender: object, *, first_turn: int | None, **_: object) -> None:
        if first_turn is not None:
            heard.append(first_turn)

    conversation_changed.connect(listen)
    try:
        ada.ask(ada.new_conversation(), "Hi")
    finally:
        conversation_changed.disconnect(listen)
    assert heard == [0]


def test_unanswered_question_stays_in_context(ada: Talker, endpoint: ChatServer) -> None:
    number = ada.new_conversation()
    ada.post(f"/conversations/{number}/messages", messages=[{"role": "user", "content": "unanswered"}])
    ada.ask(number, "and this")
    assert [m["content"] for m in endpoint.requests[0]["messages"]] == ["unanswered", "and this"]
