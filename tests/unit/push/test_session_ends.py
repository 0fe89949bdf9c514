"""Sessions that arrive by themselves, what `connect --check` says of it, and a hook that keeps quiet after failures."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from convmemory.push import __main__, hook, pushing
from convmemory.push.account import Account
from convmemory.push.agents import AGENTS, plugin_of
from tests.support.agent_databases import make
from tests.support.import_server import ImportServer, import_server
from tests.unit.importers.helpers import write_lines
from tests.unit.push.test_choice import run, sent

NODE = "/usr/bin/node"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ImportServer]:
    for name in ("CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "CONVMEMORY_KEY_FILE", "CONVMEMORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONVMEMORY_KEY", "cm_key")
    with import_server() as running:
        yield running


def ended(home: Path, server: ImportServer, session: str, agent: str = "opencode") -> int:
    return run(home, server, "push", f"--session={session}", f"--agent={agent}")


def test_session_of_database_is_sent_alone_and_its_arrival_recorded(
    tmp_path: Path, server: ImportServer, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    account = Account(tmp_path)
    with closing(make(path)):
        assert ended(tmp_path, server, "ses_two") == 0
        assert ended(tmp_path, server, "ses_two") == 0
    database = sent(server)["opencode.db"]
    assert b"ses_two" in database
    assert b"ses_one" not in database
    assert len(server.uploads) == 1, "the same content again is nothing new"
    assert pushing.arrivals(account)["opencode"]["outcome"] == "nothing-new"
    sent_at = pushing.arrivals(account)["opencode"]["sent_at"]
    assert sent_at
    server.address = "http://127.0.0.1:9"
    assert ended(tmp_path, server, "ses_one") == pushing.OFFLINE_EXIT
    assert pushing.arrivals(account)["opencode"]["outcome"] == "offline"
    assert pushing.arrivals(account)["opencode"]["sent_at"] == sent_at
    assert [line.split()[1:4] for line in (account.state / "hook.log").read_text().splitlines()] == [
        ["push", "opencode", outcome] for outcome in ("sent", "nothing-new", "offline")
    ]  # fmt: skip


def test_session_of_ignored_folder_in_database_is_not_sent(tmp_path: Path, server: ImportServer) -> None:
    path = tmp_path / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    (tmp_path / ".convmemory-ignore").touch()
    with closing(make(path)) as connection:
        connection.execute("UPDATE session SET directory = ?", [str(tmp_path / "work")])
        assert ended(tmp_path, server, "ses_two") == 0
    assert server.uploads == []


def test_check_says_when_last_session_came(
    tmp_path: Path, server: ImportServer, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, server, "connect", "claude-code")
    run(tmp_path, server, "connect", "--check")
    assert "Claude Code: no session was sent by its hook yet" in capsys.readouterr().out
    id = "0a1b2c3d-0000-4000-8000-000000000000"
    write_lines(tmp_path / f".claude/projects/-p/{id}.jsonl", [{"type": "user", "sessionId": id, "cwd": "/p"}])
    ended(tmp_path, server, id, "claude-code")
    run(tmp_path, server, "connect", "--check")
    assert "Claude Code: the last session was sent 20" in capsys.readouterr().out


def test_turns_in_quick_succession_are_sent_by_one_process(
    tmp_path: Path, server: ImportServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    account = Account(tmp_path)

    def start() -> str:
        return hook._start_push([], account, "opencode", "ses_two", "", is_turn=True)

    assert [start(), start()] == ["started", "waits"]
    monkeypatch.setattr(pushing, "TURN_S", 0)
    path = tmp_path / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    with closing(make(path)):
        assert __main__.main([*started[0], f"--server={server.address}"]) == 0
    assert len(server.uploads) == 1
    assert start() == "started"


def test_hook_is_quiet_after_three_failures_and_asks_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, given = Account(tmp_path), {"session_id": "s", "cwd": "/p", "prompt": "why did the pump stop again"}
    monkeypatch.setattr(hook, "_input", lambda: given)
    environment = {"CONVMEMORY_SERVER": "http://127.0.0.1:9", "CONVMEMORY_KEY": "k"}

    def asked() -> str:
        assert hook.run("prompt", "claude-code", account, (), environment) == ""
        return (account.state / "hook.log").read_text().split()[-2]

    assert [asked() for _ in range(5)] == ["offline", "offline", "offline", "quiet", "quiet"]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + hook.QUIET_S + 1)
    assert [asked(), asked()] == ["offline", "quiet"]
    answer = {
        "answered": True, "context": "<recalled-memory>It was the capacitor.</recalled-memory>", "context_tokens": 12,
        "left_out": [], "results": [{"message_id": 1, "title": 'The "pump"\n', "created_at": "2026-08-01T10:00:00Z"}],
    }  # fmt: skip
    monkeypatch.setattr(hook, "_post", lambda *_: (200, answer))
    monkeypatch.setattr(time, "time", lambda: now + 3 * hook.QUIET_S)
    printed = [json.loads(hook.run("prompt", "claude-code", account, (), environment)) for _ in range(2)]
    line = 'convmemory added 12 tokens to the prompt, from "The pump" (2026-08-01). Off: CONVMEMORY=off for one session'
    assert printed[0]["systemMessage"].startswith(line)
    assert "systemMessage" not in printed[1], "the person is told once a session"
    # After a compaction what was shown may come again.
    shown = hook._read(hook._state_of(account, "claude-code", "s"))
    assert shown["shown"] == [1, 1]
    given |= {"source": "compact"}
    assert hook.run("start", "claude-code", account, (), environment) == ""
    assert hook._read(hook._state_of(account, "claude-code", "s")) == {}


PLUGIN_TEST = """
const showToast = async (toast) => console.log(toast.body.message)
const hooks = await Convmemory({ directory: "/p", client: { tui: { showToast } } })
const typed = { id: "prt_0123456789ababcdef", sessionID: "s", messageID: "m", type: "text", text: "q" }
const output = { message: {}, parts: [typed] }
await hooks["chat.message"]({ sessionID: "s" }, output)
console.log(JSON.stringify(output.parts[1]), output.parts[1].id > output.parts[0].id, Object.keys(hooks).join())
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "s" } } })
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path(NODE).exists(), reason="needs Node.js")
def test_plugin_appends_to_message_of_user_and_tells_end_of_turn(tmp_path: Path) -> None:
    client = tmp_path / "client.py"
    client.write_text(
        "import json, sys\ngiven = json.load(sys.stdin)\n"
        f"open({str(tmp_path / 'calls')!r}, 'a').write(f\"{{sys.argv[1:]}} {{given['session_id']}}\\n\")\n"
        "if sys.argv[1] == 'prompt': print(json.dumps({'text': 'recalled', 'line': 'added'}))\n"
    )
    module = plugin_of([sys.executable, str(client)], "opencode").replace("export const", "const") + PLUGIN_TEST
    (tmp_path / "plugin.mjs").write_text(module)
    done = subprocess.run([NODE, str(tmp_path / "plugin.mjs")], capture_output=True, text=True, check=True)
    line, part = done.stdout.splitlines()
    assert line == "added"
    value: dict[str, Any] = json.loads(part.rpartition("}")[0] + "}")
    assert value | {"id": ""} == {
        "id": "", "sessionID": "s", "messageID": "m", "type": "text", "synthetic": True, "text": "recalled",
    }  # fmt: skip
    assert part.endswith("} true chat.message,event"), "the system prompt is left as it is"
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"['{event}', 'opencode'] s" for event in ("start", "prompt", "turn")
    ]


def test_every_agent_with_hook_sends_its_sessions() -> None:
    for agent in AGENTS:
        if agent.hook:
            events = set(agent.hook.events.values())
            assert events & {"end", "turn"} or agent.hook.shape == "plugin", agent.slug
