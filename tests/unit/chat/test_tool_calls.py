"""A tool that raises or hangs becomes a result that says so; the reply goes on."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.chat import generation
from convmemory.chat.deltas import FinishedCall
from convmemory.conversations.messages.parts import ToolCallPart, ToolResultPart
from convmemory.core.errors import InvalidInput
from convmemory.core.tokens import ESTIMATE
from convmemory.tools.registry import Seen

NAME = "ConversationSearch"
Run = Callable[..., dict[str, Any]]


def answer(monkeypatch: pytest.MonkeyPatch, run: Run) -> ToolResultPart:
    monkeypatch.setattr(generation, "run_tool", run)
    call = FinishedCall(ToolCallPart("c1", NAME, {"query": "eggs"}))
    room = generation.ResultBudget(4_000, ESTIMATE)
    return asyncio.run(generation.answer_call(call, caller=Caller.of(User(pk=1)), allowed=(NAME,), budget=room))


@pytest.mark.parametrize(
    ("error", "told", "logged"),
    [
        (InvalidInput("limit=0 is out of range."), "limit=0 is out of range.", False),
        (ZeroDivisionError("secret detail"), f"{NAME} failed: an error inside the server.", True),
    ],
)
def test_tool_that_raises_is_result(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, told: str, logged: bool
) -> None:
    def run(name: str, arguments: Mapping[str, Any], caller: User, *, seen: Seen) -> dict[str, Any]:
        raise error

    monkeypatch.setattr(logging.getLogger("convmemory"), "propagate", True)
    assert answer(monkeypatch, run) == ToolResultPart("c1", told, name=NAME, is_error=True)
    assert ("secret detail" in caplog.text) == logged


def test_tool_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def run(name: str, arguments: Mapping[str, Any], caller: User, *, seen: Seen) -> dict[str, Any]:
        released.wait(60)
        return {}

    monkeypatch.setattr(generation, "TIMEOUT_S", 0.05)
    try:
        result = answer(monkeypatch, run)
    finally:
        released.set()
    assert (result.is_error, result.text) == (True, f"{NAME} gave no answer within 0.05 s.")
