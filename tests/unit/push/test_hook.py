"""Requests of an agent's hook about prompts, and prompts about which it asks nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from convmemory.push import hook
from convmemory.push.account import Account
from convmemory.push.hook import LEAST_TOKENS, PROMPT_TOKENS, SESSION_TOKENS

Ask = Callable[..., str]
ENVIRONMENT = {"CONVMEMORY_SERVER": "http://127.0.0.1:9", "CONVMEMORY_KEY": "cvm_key"}


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The bodies of requests; each gets an answer that takes all tokens that it allows."""
    bodies: list[dict[str, Any]] = []

    def answer(server: object, method: str, path: str, body: bytes, *_: object, **__: object) -> tuple[int, bytes]:
        bodies.append(json.loads(body))
        results = [{"message_id": len(bodies)}]
        tokens = bodies[-1]["max_tokens"]
        return 200, json.dumps(
            {"answered": True, "context": "a memory", "context_tokens": tokens, "results": results, "left_out": []}
        ).encode()

    monkeypatch.setattr(hook, "request", answer)
    monkeypatch.setattr(hook, "ANSWER_S", 60.0)
    monkeypatch.setattr(hook, "INPUT_S", 60.0)
    return bodies


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return the hook's output for a prompt of a session in a folder."""

    def ask(session: str = "s1", cwd: str = "/src/bakery") -> str:
        prompt = {"session_id": session, "cwd": cwd, "prompt": "how long does the rye dough rise?"}
        path = tmp_path / "prompt.json"
        path.write_text(json.dumps(prompt))
        with path.open() as file:
            monkeypatch.setattr("sys.stdin", file)
            return hook.run("prompt", "claude-code", Account(tmp_path), ["convmemory-push"], ENVIRONMENT)

    return ask


def test_prompts_of_session_share_budget_and_recall_nothing_of_it(ask: Ask, bodies: list[dict[str, Any]]) -> None:
    while "a memory" in ask():
        assert len(bodies) < 100
    asked = [body["max_tokens"] for body in bodies]
    assert set(asked[:-1]) == {PROMPT_TOKENS}
    assert SESSION_TOKENS - LEAST_TOKENS < sum(asked) <= SESSION_TOKENS
    assert [body["alive_message_ids"] for body in bodies[:3]] == [[], [1], [1, 2]]
    assert {body["exclude_session"] for body in bodies} == {"s1"}
    assert "a memory" in ask("s2"), "another session has a budget of its own"


@pytest.mark.parametrize("left_out", ["projects", "paused"])
def test_session_that_is_left_out_asks_nothing(
    ask: Ask, bodies: list[dict[str, Any]], tmp_path: Path, left_out: str
) -> None:
    folder = tmp_path / ".config" / "convmemory"
    folder.mkdir(parents=True)
    (folder / left_out).write_text("/src/mill\n")
    assert ask() == ""
    assert bodies == []
    assert bool(ask(cwd="/src/mill/stones")) == (left_out == "projects")
