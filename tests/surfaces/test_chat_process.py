"""The web server as a process: killed or stopped in the middle of streams, and with fewer connections than these."""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import httpx2
import pytest
from django.utils import timezone

from convmemory.chat.models import Reply
from convmemory.conversations.models import Conversation
from convmemory.ops.runtime.instance import web_command
from tests.factories import make_user
from tests.support.chat_server import Hold, Say, Script, running_chat_server, says
from tests.support.chatting import Talker, names
from tests.support.web_process import web_process

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def eventually(condition: Callable[[], object], what: str) -> None:
    for _ in range(1500):
        if condition():
            return
        time.sleep(0.02)
    pytest.fail(f"never happened: {what}")


def test_killed_process_leaves_idle_conversation_with_what_was_received() -> None:
    owner = make_user()
    release = threading.Event()
    with running_chat_server() as endpoint:
        endpoint.scripts.extend([Script((Say("Once upon"), Hold(release), Say(" a time."))), says("Second.")])
        chat = {"CHAT_BASE_URL": endpoint.url, "CHAT_API_KEY": endpoint.key, "CHAT_MODEL": "m"}
        with web_process(chat) as first:
            ada = Talker(first.address, owner)
            number = ada.new_conversation()
            with ada.streaming(number, "Tell me a story") as events:
                assert [next(events)[0], next(events)[0]] == ["message_started", "text"]
                eventually(lambda: Reply.objects.get().partial, "what was received is kept")
                first.kill()
                with pytest.raises(httpx2.TransportError):
                    list(events)
            ada.close()
        assert Conversation.objects.get().status == "processing"
        Conversation.objects.update(processing_until=timezone.now())  # as if its lease had run out
        release.set()
        with web_process(chat) as second:
            ada = Talker(second.address, owner)
            eventually(lambda: Conversation.objects.get().status == "idle", "the conversation is idle")
            assert [message["turn_number"] for message in ada.messages(number)] == [0, 0]
            assert names(ada.ask(number, "Go on"))[-1] == "done"
            texts = [message["parts"][0]["text"] for message in ada.messages(number)]
            assert texts == ["Tell me a story", "Once upon", "Go on", "Second."]
            assert [message["turn_number"] for message in ada.messages(number)] == [0, 0, 1, 1]
            ada.close()
    assert list(Reply.objects.order_by("pk").values_list("status", flat=True)) == ["interrupted", "done"]


def test_stopped_process_is_not_ready_then_refuses_connections_and_ends_replies() -> None:
    owner = make_user()
    release = threading.Event()
    with running_chat_server() as endpoint, ExitStack() as stack:
        endpoint.scripts.extend([Script((Say("Once upon"), Hold(release), Say(" a time.")))] * 3)
        chat = {"CHAT_BASE_URL": endpoint.url, "CHAT_API_KEY": endpoint.key, "CHAT_MODEL": "m", "DRAIN_S": "6"}
        web = stack.enter_context(web_process(chat, command=lambda port: web_command("127.0.0.1", port)))
        ada = Talker(web.address, owner)
        stack.callback(ada.close)
        with ada.streaming(ada.new_conversation(), "A story without a listener") as events:
            assert [next(events)[0], next(events)[0]] == ["message_started", "text"]
        before = stack.enter_context(ada.streaming(ada.new_conversation(), "A story before the signal"))
        web.process.send_signal(signal.SIGTERM)
        with httpx2.Client(base_url=web.address, trust_env=False) as others:
            eventually(lambda: others.get("/ready").status_code == 503, "the balancer is sent elsewhere")
            assert others.get("/ready").json() == {"status": "unavailable"}
            alive = others.get("/health")
            assert (alive.status_code, alive.headers["Connection"]) == (200, "close")
        after = stack.enter_context(ada.streaming(ada.new_conversation(), "A story after the signal"))

        def is_refused() -> bool:
            try:
                httpx2.get(f"{web.address}/health", trust_env=False)
            except httpx2.ConnectError:
                return True
            except httpx2.ReadError:
                return False  # reset: it waited to be accepted while the listener was closed
            return False

        eventually(is_refused, "the listener is closed")
        assert web.process.poll() is None
        release.set()
        assert [names(list(events))[-1] for events in (before, after)] == ["done", "done"]
        web.process.wait(10)
    assert set(Reply.objects.values_list("status", flat=True)) == {"done"}


def test_streams_hold_no_database_connections() -> None:
    owner = make_user()
    release = threading.Event()
    with running_chat_server() as endpoint:
        endpoint.scripts.extend([Script((Say("Once upon"), Hold(release), Say(" a time.")))] * 6)
        chat = {"CHAT_BASE_URL": endpoint.url, "CHAT_API_KEY": endpoint.key, "CHAT_MODEL": "m"}
        with web_process({**chat, "DATABASE_POOL_SIZE": "2"}) as web, ExitStack() as stack:
            ada = Talker(web.address, owner)
            stack.callback(ada.close)
            conversations = [ada.new_conversation() for _ in range(6)]
            streams = [stack.enter_context(ada.streaming(number, "Tell me a story")) for number in conversations]
            for events in streams:
                assert [next(events)[0], next(events)[0]] == ["message_started", "text"]
            assert {ada.conversation(number)["status"] for number in conversations} == {"processing"}
            release.set()
            assert [names(list(events))[-1] for events in streams] == ["done"] * 6
