"""Requests of an agent's hook about prompts, and prompts about which it asks nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from convmemory.push import hook
from convmemory.push.account import Account
from convmemory.push.hook import LEAST_TOKENS, PROMPT_TOKENS, SESSION_TOKENS, query_of

Ask = Callable[..., str]
ENVIRONMENT = {"CONVMEMORY_SERVER": "http://127.0.0.1:9", "CONVMEMORY_KEY": "cvm_key"}


@pytest.fixture
def answered() -> dict[str, Any]:
    """Values of the server's answers that a test changes."""
    return {}


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch, answered: dict[str, Any]) -> list[dict[str, Any]]:
    """The bodies of requests; each gets an answer that takes all tokens that it allows."""
    bodies: list[dict[str, Any]] = []

    def answer(server: object, method: str, path: str, body: bytes, *_: object, **__: object) -> tuple[int, bytes]:
        bodies.append(json.loads(body))
        values: dict[str, Any] = {
            "answered": True,
            "context": "a memory",
            "context_tokens": bodies[-1].get("max_tokens"),
            "left_out": [],
        }
        values |= {"results": [{"message_id": len(bodies)}], "text": "a memory", **answered}
        return 200, json.dumps(values).encode()

    monkeypatch.setattr(hook, "request", answer)
    monkeypatch.setattr(hook, "ANSWER_S", 60.0)
    monkeypatch.setattr(hook, "INPUT_S", 60.0)
    return bodies


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return the hook's output for a prompt of a session in a folder, or for another event."""

    def ask(session: str = "s1", cwd: str = "/src/bakery", event: str = "prompt", **values: Any) -> str:
        given = {"session_id": session, "cwd": cwd, "prompt": "how long does the rye dough rise?", **values}
        path = tmp_path / "given.json"
        path.write_text(json.dumps(given))
        with path.open() as file:
            monkeypatch.setattr("sys.stdin", file)
            return hook.run(event, "claude-code", Account(tmp_path), ["convmemory-push"], ENVIRONMENT)

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


def test_message_that_did_not_fit_may_come_with_later_prompt(
    ask: Ask, bodies: list[dict[str, Any]], answered: dict[str, Any]
) -> None:
    rows = [{"message_id": number, "title": f"Loaf {number}"} for number in (1, 2)]
    answered |= {"results": rows, "left_out": [{"message_id": 2}]}
    line = json.loads(ask())["systemMessage"]
    ask()
    assert bodies[1]["alive_message_ids"] == [1]
    assert ("Loaf 1" in line, "Loaf 2" in line) == (True, False)


def test_resumed_session_is_not_told_where_work_stopped(ask: Ask, bodies: list[dict[str, Any]]) -> None:
    assert "a memory" in ask(event="start")
    assert ask(event="start", source="resume") == ""


def test_fix_that_passed_is_told_once_a_session(
    ask: Ask, bodies: list[dict[str, Any]], answered: dict[str, Any]
) -> None:
    failure = {"event": "failure", "tool_name": "Bash", "error": "ValueError: the valve is stuck"}
    answered |= {"signature": "valve", "fixes": [{"passed": False}]}
    assert ask(**failure) == ""
    answered["fixes"].append({"passed": True})
    assert "a memory" in ask(**failure)
    assert ask(**failure) == ""
    assert "a memory" in ask("s2", **failure)


LONG = "This goes on " * 40 + "and ends."


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        ("fix it", ""),
        ("/compact keep the plan of today", ""),
        ("!ls -l in this folder", ""),
        ("\n".join(f"2026-01-0{n} 10:00:00 ERROR the pool is empty" for n in range(1, 8)), ""),
        ("why does the pool run empty", "why does the pool run empty"),
        ('<recalled-memory mark="1">\nold words\n</recalled-memory mark="1"> why is it empty', "why is it empty"),
        ("what a long text " * 60, ("what a long text " * 60)[:475].rstrip()),
        ("为什么连接池总是空的", "为什么连接池总是空的"),
        ("継続して", ""),
        ("なぜ接続プールが空になるのですか", "なぜ接続プールが空になるのですか"),
        ("ทำไมพูลการเชื่อมต่อจึงว่างเปล่า", "ทำไมพูลการเชื่อมต่อจึงว่างเปล่า"),
        ("# why does the pool run empty", "# why does the pool run empty"),
        ("/etc/pool.toml is not read, why", "/etc/pool.toml is not read, why"),
        ("/compact", ""),
        (
            f"{LONG} Which port does the pool use? {LONG} Look at it now.",
            "Which port does the pool use? Look at it now.",
        ),
        (f"The pool is slow. {LONG} {LONG}\nSo tell me.", "The pool is slow. So tell me."),
    ],
)
def test_query_of_prompt_leaves_out_commands_logs_and_recalled_text(prompt: str, query: str) -> None:
    assert query_of(prompt) == query
