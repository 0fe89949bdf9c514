"""The web server as a process: killed in the middle of a stream, and with fewer connections than streams."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import httpx2
import pytest
from django.utils import timezone

from convmemory.chat.models import Reply
from convmemory.conversations.models import Conversation
from tests.factories import make_user
from tests.support.chat_server import Hold, Say, Script, running_chat_server, says
from tests.support.chatting import Talker, names
from tests.support.web_process import web_process

pytestmark = pytest.mark.django_db(transaction=True)


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
