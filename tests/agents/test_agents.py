"""Each agent, as its vendor ships it: connected, asked, resumed, imported, and disconnected again."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from convmemory.push.agents import agent_named
from convmemory.push.edits import MISSING, Target, read
from convmemory.push.stores import existing_stores, is_of_chats
from tests.agents.conftest import RESULTS, Steps
from tests.agents.programs import NEWEST, PROGRAMS, Home, Program, install
from tests.agents.scripted_model import ASKED, CHINESE, FAILS, FIRST, FIXED, KNOWN, QUERY, SECOND, STEERING, THIRD
from tests.support.chat_server import ChatServer
from tests.support.installation import ROOT, Installation
from tests.support.patience import ANSWER_S, PROCESSES_S, wait_until
from tests.unit.importers.helpers import write_lines

pytestmark = [
    pytest.mark.agents,
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed, and the agents come from it"),
]

REMOTE = "git@github.com:ada/waterworks.git"
SIDES = ("user", "assistant")
PUSH = ROOT / "convmemory" / "push"
FIXTURES = ROOT / "tests" / "fixtures" / "transcripts"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.slug)
def test_agent_connects_calls_recalls_and_is_imported_exactly(
    program: Program, product: Installation, model: ChatServer, tmp_path: Path
) -> None:
    executable, version = install(program)
    RESULTS[program.slug]["version"] = version
    steps = Steps(program.slug)
    home = Home(program, executable, tmp_path / "home", model.url.removesuffix("/v1"))
    home.make()
    make_repository(home.project, REMOTE)
    key = product.manage("create_api_key", program.slug, "--create").split()[-1]
    with httpx2.Client(
        base_url=f"{product.address}/api/v1",
        headers={"Authorization": f"Bearer {key}"},
        timeout=ANSWER_S,
        trust_env=False,
    ) as api:
        link = f"{product.address}{seed(api, home.project)}"
        write_session_of_another(home)
        before = home.snapshot()
        with steps.step("connect"):
            said = client(home, "connect", "--server", product.address, program.slug, CONVMEMORY_KEY=key)
            assert "connected" in said
            assert "unchanged" in client(home, "connect", program.slug)
            client(home, "connect", "--check")
        connected = home.snapshot()
        home.run(FIRST[0])
        asked = [json.dumps(request) for request in model.requests]
        with steps.step("hook"):
            unanswered = [text for text in asked if FIRST[0] in text and QUERY not in text]
            assert unanswered, asked
            assert any("recalled-memory" in text and KNOWN in text for text in unanswered), hook_log(home)
        with steps.step("tool call"):
            results = [text for text in asked if QUERY in text]
            assert any(f"({link})" in text.rpartition(QUERY)[2] for text in results), results or asked
        with steps.step("end"):
            if sends_by_itself(program):
                wait_until(lambda: api.get("/imports").json()["results"], "the session that the hook sends", ANSWER_S)
                assert turns(api, program) == [FIRST]
        with steps.step("import"), keeping_sessions(home, version):
            client(home, "push", "--yes")
            assert turns(api, program) == [FIRST]
        with steps.step("resume"), keeping_sessions(home, version):
            home.run(SECOND[0], again=True)
            client(home, "push", "--yes")
            assert turns(api, program) == [FIRST, SECOND]
            client(home, "push", "--yes")
            assert turns(api, program) == [FIRST, SECOND]
        with steps.step("same start"):
            home.run(THIRD[0], again=True)
            check_beginnings_are_same(program, model.requests)
        check_when_memory_speaks(steps, home, model, api, product.address, key)
        with steps.step("no client"):
            check_goes_on_without_client(home, model)
        with steps.step("disconnect"):
            entries = json.loads((home.folder / ".local/state/convmemory/wired.json").read_text())["entries"]
            used = home.snapshot()
            client(home, "disconnect")
            check_disconnected(home, before, connected, used, entries)
    if program.is_recorded:
        recorded = product.manage("create_api_key", f"{program.slug}-recorded", "--create").split()[-1]
        with steps.step("proxy"):
            unconnected = Home(program, executable, tmp_path / "recorded", product.address, recorded)
            unconnected.make()
            unconnected.run(FIRST[0])
            unconnected.run(SECOND[0], again=True)
            check_recorded(product.address, recorded)
    assert not steps.failures, "\n".join(steps.failures)


def check_when_memory_speaks(
    steps: Steps, home: Home, model: ChatServer, api: httpx2.Client, address: str, key: str
) -> None:
    """Check that memory answers in each folder of the repository, in Chinese and after a failing command, and neither
    about other repositories nor to steering.
    """

    def recalled(prompt: str, folder: Path | None = None, on: Home = home, event: str = "prompt") -> str:
        """Return what the agent sent to the model if its hook spoke at the last such event, otherwise "".

        It asks once more if the machine is so busy that the hook gave the answer up.
        """
        for _ in range(2):
            model.requests.clear()
            on.run(prompt, folder=folder)
            outcomes = [line.split()[3] for line in hook_log(on).splitlines() if line.split()[1] == event]
            if outcomes[-1:] != ["slow"]:
                break
        sent = "\n".join(json.dumps(request, ensure_ascii=False) for request in model.requests)
        return sent if outcomes[-1:] == ["said"] else ""

    with steps.step("sub-folder"):
        below = home.project / "src" / "pumps"
        below.mkdir(parents=True)
        assert KNOWN in recalled(ASKED, below), hook_log(home)
    with steps.step("worktree"):
        worktree = home.folder / "trees" / "valves"
        git(home.project, "worktree", "add", "-q", str(worktree))
        assert KNOWN in recalled(ASKED, worktree), hook_log(home)
    with steps.step("machine"):
        machine = replace(home, folder=home.folder.parent / "machine")
        machine.make()
        clone = machine.folder / "src" / "water"
        make_repository(clone, REMOTE.replace("git@github.com:", "https://github.com/"))
        client(machine, "connect", "--server", address, home.program.slug, CONVMEMORY_KEY=key)
        assert KNOWN in recalled(ASKED, clone, machine), hook_log(machine)
    with steps.step("namesake"):
        namesake = home.folder / "client" / "waterworks"
        make_repository(namesake, "https://example.org/client/waterworks.git")
        assert not recalled(ASKED, namesake), hook_log(home)
        assert KNOWN not in json.dumps(model.requests), hook_log(home)
    with steps.step("steering"):
        assert not recalled(STEERING), hook_log(home)
    with steps.step("Chinese"):
        store(api, home.project, [{"role": role, "content": text} for role, text in zip(SIDES, CHINESE, strict=True)])
        assert CHINESE[1] in recalled(CHINESE[0]), hook_log(home)
    agent = agent_named(home.program.slug)
    if agent and agent.hook and "failure" in agent.hook.events.values():
        with steps.step("failure"):
            store(api, home.project, fixed_error())
            assert FIXED in recalled(FAILS[0], event="failure"), hook_log(home)


def fixed_error() -> list[dict[str, Any]]:
    """Return the messages of a turn in which a command fails with the error, is mended, and passes."""

    def call(number: int, name: str, **values: str) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(values)}
        return {"role": "assistant", "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]}

    failed = "make: *** No rule to make target 'water'.  Stop.\nExit code 2"
    return [
        {"role": "user", "content": "Open the water."},
        call(1, "bash", command=FAILS[1]),
        {"role": "tool", "tool_call_id": "c1", "content": failed},
        call(2, "bash", command="echo include valve.mk >> Makefile"),
        {"role": "tool", "tool_call_id": "c2", "content": "written"},
        call(3, "bash", command=FAILS[1]),
        {"role": "tool", "tool_call_id": "c3", "content": "the water is open"},
        {"role": "assistant", "content": FIXED},
    ]


def make_repository(folder: Path, remote: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    git(folder, "remote", "add", "origin", remote)
    git(folder, "-c", "user.name=ada", "-c", "user.email=ada@example.org", "commit", "-q", "--allow-empty", "-m", "a")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def check_beginnings_are_same(program: Program, requests: list[Any]) -> None:
    """Check that memory leaves the system prompt as it is: the provider's cache begins with it."""
    agent = agent_named(program.slug)
    if agent is None or agent.hook is None or agent.hook.shape != "plugin":
        return
    prompts = (FIRST[0], SECOND[0], THIRD[0])
    asked = [each for each in requests if each.get("tools") and any(prompt in str(each) for prompt in prompts)]
    assert len(asked) >= 4, len(asked)
    beginnings = {json.dumps([part for part in each["messages"] if part["role"] == "system"]) for each in asked}
    assert len(beginnings) == 1, beginnings
    assert not any("recalled-memory" in text for text in beginnings)


def client(home: Home, *arguments: str, **environment: str) -> str:
    """Run the push client in the home folder; what it printed."""
    return home.start([sys.executable, str(PUSH), *arguments], PROCESSES_S, **environment)


def write_session_of_another(home: Home) -> None:
    """Write a session of pi in a folder that is left out: it must not be sent by any way."""
    folder = home.folder / "work" / "secret"
    folder.mkdir()
    (folder / ".convmemory-ignore").touch()
    header = {"type": "session", "id": "s", "timestamp": "2026-11-01T00:00:00Z", "cwd": str(folder)}
    message = {"type": "message", "id": "m", "message": {"role": "user", "content": "What nobody else may read."}}
    write_lines(home.folder / ".pi/agent/sessions/secret/s.jsonl", [header, message])


def sends_by_itself(program: Program) -> bool:
    """Return whether the agent runs a hook at the end of a session or of a turn."""
    agent = agent_named(program.slug)
    return agent is not None and agent.hook is not None


def check_goes_on_without_client(home: Home, model: ChatServer) -> None:
    """Check that the prompt reaches the model when the client is gone, and when it ends with 2."""
    path = home.folder / ".local/share/convmemory/convmemory-push"
    moved = path.rename(home.folder / "tmp" / path.name)
    for content in (None, "raise SystemExit(2)\n"):
        if content is not None:
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
        else:
            path.parent.rmdir()
        model.requests.clear()
        home.run(SECOND[0], again=True)
        assert any(SECOND[0] in json.dumps(request) for request in model.requests), content
    path.unlink()
    moved.rename(path)


def seed(api: httpx2.Client, project: Path) -> str:
    """Store an earlier conversation of the project, wait until it is indexed, and return its turn's link."""
    url = store(api, project, [{"role": "user", "content": ASKED}, {"role": "assistant", "content": KNOWN}])
    api.post("/memory/recall", json={"query": ASKED}).raise_for_status()  # loads the model
    return f"{url}?turn=0"


def store(api: httpx2.Client, project: Path, messages: list[dict[str, Any]]) -> str:
    """Store a conversation, wait until all are indexed, and return its address."""
    body = {"title": "Pump", "project": str(project), "agent": "earlier", "messages": messages}
    made = api.post("/conversations", json=body).raise_for_status().json()

    def is_indexed() -> bool:
        state = api.get("/index/status").json()
        return bool(state["embedded_turns"] >= 1 and not state["pending"])

    wait_until(is_indexed, "an indexed conversation", PROCESSES_S)
    return str(made["url"])


def turns(api: httpx2.Client, program: Program) -> list[tuple[str, str]]:
    """Return question and answer of each turn of the one conversation that was imported."""
    deadline = time.monotonic() + PROCESSES_S
    while any(row["state"] in ("queued", "running") for row in api.get("/imports").json()["results"]):
        assert time.monotonic() < deadline, "an import does not end"
        time.sleep(0.2)
    both = [api.get("/conversations", params={"archived": archived}).json()["results"] for archived in (False, True)]
    found = [row for page in both for row in page if row["agent"] != "earlier"]  # a run without a terminal is archived
    reports = [api.get(f"/imports/{row['id']}").json() for row in api.get("/imports").json()["results"]]
    assert len(found) == 1, json.dumps([found, reports])
    (row,) = found
    assert row["source"] == program.sessions, row
    messages = api.get(f"/conversations/{row['id']}/messages").json()["results"]
    assert not any(message["superseded"] for message in messages), messages
    searches = [
        part for each in messages for part in each["parts"] if part["type"] == "tool_call" and QUERY in str(part)
    ]
    assert len(searches) == 1, searches
    return turns_of(messages)


def check_recorded(address: str, key: str) -> None:
    """Check that both questions are turns of one conversation, whatever else the agent sent to its model."""
    with httpx2.Client(
        base_url=f"{address}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=ANSWER_S, trust_env=False
    ) as api:
        wait_until(lambda: SECOND[1] in json.dumps(recorded_turns(api)), "the last recording", ANSWER_S)
        texts = [[f"{asked}\n{answered}" for asked, answered in turns] for turns in recorded_turns(api)]
    found = [turns for turns in texts if FIRST[0] in json.dumps(turns) or SECOND[0] in json.dumps(turns)]
    assert [len(turns) for turns in found] == [2], json.dumps(found)
    assert FIRST[0] in found[0][0], found
    assert SECOND[0] in found[0][1], found
    assert SECOND[1] in found[0][1], found


def recorded_turns(api: httpx2.Client) -> list[list[tuple[str, str]]]:
    """Return question and answer of each turn of each conversation."""
    rows = api.get("/conversations").json()["results"]
    return [turns_of(api.get(f"/conversations/{row['id']}/messages").json()["results"]) for row in rows]


def turns_of(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    numbers = sorted({message["turn_number"] for message in messages if message["turn_number"] is not None})
    return [(said(messages, number, "user"), said(messages, number, "assistant")) for number in numbers]


def said(messages: list[dict[str, Any]], turn: int, role: str) -> str:
    parts = [part for each in messages if (each["turn_number"], each["role"]) == (turn, role) for part in each["parts"]]
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


@contextmanager
def keeping_sessions(home: Home, version: str) -> Iterator[None]:
    """With NEWEST=1 keep the agent's sessions as a fixture if the block fails, so that their importer can be mended."""
    try:
        yield
    except AssertionError as error:
        if NEWEST:
            fixture = FIXTURES / home.program.sessions / f"{home.program.slug}-{version}"
            for path in session_files(home):
                target = fixture / path.relative_to(home.folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            error.add_note(f"The sessions are kept in {fixture}: mend their importer, with a test that reads them.")
        raise


def session_files(home: Home) -> Iterator[Path]:
    for store in existing_stores(home=home.folder, environment={}):
        yield from (path for path in store.files() if is_of_chats(store, path))


def hook_log(home: Home) -> str:
    path = home.folder / ".local/state/convmemory/hook.log"
    return path.read_text() if path.exists() else "the hook did not run"


def check_disconnected(
    home: Home, before: dict[str, bytes], connected: dict[str, bytes], used: dict[str, bytes], entries: list[Any]
) -> None:
    """Check that no entry is left, that files that the agent did not write are as before, and so are all others."""
    left = home.snapshot()
    edited = {str(Path(entry["file"]).relative_to(home.folder)) for entry in entries}
    for entry in entries:
        name = str(Path(entry["file"]).relative_to(home.folder))
        target = Target(entry["form"], tuple(entry["keys"]), entry["is_item"], entry["marker"])
        assert read(left.get(name, b"").decode(), target, entry["value"]) is MISSING, (name, left[name])
    for name in edited:
        if used.get(name) == connected[name]:
            assert left.get(name) == before.get(name), name
    own = (".config/convmemory/", ".local/state/convmemory", ".local/share/convmemory/")
    changed = {name for name in used.keys() | left.keys() if used.get(name) != left.get(name)} - edited
    assert not [name for name in changed if not name.startswith(own)], changed
    client(home, "connect", "--server", "http://127.0.0.1:9", home.program.slug, CONVMEMORY_KEY="another")
    client(home, "disconnect")
    assert {name: text for name, text in home.snapshot().items() if not name.startswith(own)} == {
        name: text for name, text in left.items() if not name.startswith(own)
    }
