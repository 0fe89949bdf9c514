"""No agent is stopped by what `connect` writes: the client lies in a file of its own, and its absence ends with 0."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from convmemory.push import __main__, agents
from convmemory.push.account import Account
from convmemory.push.agents import AGENTS, Wires, entries_of
from convmemory.push.application import interpreter
from convmemory.push.plugins import plugin_files

SHELLS = [shell for shell in ("sh", "bash", "zsh", "fish") if shutil.which(shell)]
HOOKED = [agent for agent in AGENTS if agent.hook and agent.hook.shape != "plugin"]


def use_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CONVMEMORY_KEY_FILE", raising=False)
    monkeypatch.setenv("CONVMEMORY_KEY", "cvm_secret")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    use_environment(monkeypatch)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with a blank and an apostrophe in its name."""
    home = tmp_path / "Ada's home"
    home.mkdir()
    return home


def run(home: Path, *arguments: str) -> int:
    return __main__.main([*arguments, "--home", str(home)])


def connect(home: Path, *arguments: str) -> int:
    return run(home, "connect", "--server", "http://127.0.0.1:9", *arguments)


def hooks(home: Path) -> list[str]:
    """Return the hook commands in all files of the home folder."""
    texts = [path.read_text() for path in home.rglob("*.json") if "state" not in path.parts]
    commands = [re.findall(r'"(?:command|bash)": ("(?:[^"\\]|\\.)*")', text) for text in texts]
    return [command for lines in commands for command in map(json.loads, lines) if " hook " in command]


def outcome(command: str, home: Path, shell: str = "sh") -> tuple[int, str]:
    """Run a hook's command as an agent does; its exit code and what it printed."""
    done = subprocess.run(
        [shell, "-c", command], input="{}", capture_output=True, text=True, cwd=home.parent, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def connected_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Connect every agent once; return the home folder, which the files name, and a copy of it."""
    home = tmp_path_factory.mktemp("homes") / "Ada's home"
    home.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        use_environment(patch)
        assert connect(home, *(agent.slug for agent in AGENTS)) == 0
    return home, shutil.copytree(home, tmp_path_factory.mktemp("connected") / "home")


@pytest.fixture
def connected(connected_once: tuple[Path, Path]) -> Path:
    """The home folder with every agent connected, in a folder that the tests before left nothing in."""
    home, copy = connected_once
    shutil.rmtree(home.parent)
    return shutil.copytree(copy, home)


@pytest.mark.parametrize("shell", SHELLS)
def test_hook_runs_client_of_home_folder_in_any_shell(connected: Path, shell: str) -> None:
    (command,) = (line for line in hooks(connected) if "hook prompt claude-code" in line)
    assert outcome(command, connected, shell) == (0, "")
    assert "prompt claude-code no-question" in (connected / ".local/state/convmemory/hook.log").read_text()


@pytest.mark.parametrize("shell", [SHELLS[0], *(pytest.param(shell, marks=pytest.mark.slow) for shell in SHELLS[1:])])
@pytest.mark.parametrize("missing", ["client", "folder", "half of it", "Python", "home"])
def test_hook_ends_with_0_and_in_silence_whatever_is_missing(connected: Path, missing: str, shell: str) -> None:
    program = Account(connected).program
    commands = hooks(connected)
    assert len(commands) == sum(len(agent.hook.events) for agent in HOOKED if agent.hook)
    if missing == "client":
        program.unlink()
    elif missing == "folder":
        shutil.rmtree(program.parent)
    elif missing == "half of it":
        program.write_bytes(program.read_bytes()[: 2**14])
    elif missing == "Python":
        commands = [command.replace(interpreter(), "/gone/python3") for command in commands]
    else:
        shutil.rmtree(connected)
    started = commands if missing == "client" else commands[:2]
    assert {outcome(command, connected, shell) for command in started} == {(0, "")}


@pytest.mark.parametrize(
    "arguments", ["", "unknown claude-code", "prompt", "prompt claude-code --new x", "prompt emacs -x"]
)
def test_hook_of_another_version_ends_with_0(connected: Path, arguments: str) -> None:
    commands = [
        [str(Account(connected).program), "hook", *arguments.split()],
        [sys.executable, str(Path(__main__.__file__).parent), "hook", *arguments.split()],
    ]
    assert {outcome(shlex.join(command), connected) for command in commands} == {(0, "")}
    assert __main__.main(["hook", *arguments.split(), "--unknown"]) == 0


def test_error_in_hook_is_recorded_and_ends_with_0(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise LookupError

    monkeypatch.setattr("convmemory.push.hook.run", fail)
    assert __main__.main(["hook", "prompt", "claude-code", "--home", str(home)]) == 0
    assert "prompt claude-code error-LookupError" in (home / ".local/state/convmemory/hook.log").read_text()


def test_modules_and_environment_of_project_do_not_reach_client(connected: Path) -> None:
    for name in ("json", "argparse", "sitecustomize", "convmemory_push"):
        (connected.parent / f"{name}.py").write_text("raise SystemExit('replaced')")
    command = [interpreter(), "-I", str(Account(connected).program), "--help"]
    done = subprocess.run(
        command,
        cwd=connected.parent,
        env={"PYTHONPATH": str(connected.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "usage: convmemory-push" in done.stdout


def test_client_copies_itself_from_its_file_and_takes_everything_out(connected: Path) -> None:
    program = Account(connected).program
    before = program.read_bytes()
    environment = {"PATH": os.environ["PATH"], "HOME": str(connected), "CONVMEMORY_KEY": "cvm_secret"}
    for arguments in (["connect", "--server", "http://127.0.0.1:9"], ["disconnect"]):
        done = subprocess.run([str(program), *arguments], env=environment, capture_output=True, text=True, check=True)
        if program.exists():
            assert done.stdout.count("unchanged") == len(AGENTS)
            assert program.read_bytes() == before
    assert [path for path in connected.rglob("*") if path.is_file()] == []


def test_hook_of_earlier_version_is_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(agents, "_hook_line", lambda wires, event, slug, **_: f"/old/bin/convmemory hook {event} {slug}")
        connect(home, "claude-code", "codex", "copilot-cli")
        Account(home).program.unlink()  # earlier versions wrote none
    assert [command.partition(" ")[0] for command in hooks(home)] == ["/old/bin/convmemory"] * 11
    assert connect(home) == 0
    assert len(hooks(home)) == 11
    assert {outcome(command, home) for command in hooks(home)} == {(0, "")}
    run(home, "disconnect")
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_older_client_takes_out_what_newer_one_wrote(
    connected: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = connected / ".local/state/convmemory/wired.json"
    value = json.loads(record.read_text())
    for entry in value["entries"]:
        entry["added_later"] = 1
    value["entries"].append(
        {**value["entries"][-1], "agent": "of-tomorrow", "form": "xml", "file": str(connected / "a.xml")}
    )
    (connected / "a.xml").write_text("<a/>")
    record.write_text(json.dumps({**value, "added_later": []}))
    older = tuple(agent for agent in AGENTS if agent.slug != "qwen")
    for module in ("agents", "wiring", "__main__"):
        monkeypatch.setattr(f"convmemory.push.{module}.AGENTS", older)
    monkeypatch.setattr("convmemory.push.wiring._SLUGS", {agent.slug for agent in older})
    assert run(connected, "disconnect") == 0
    printed = capsys.readouterr().out
    assert "qwen: disconnected" in printed
    assert "a.xml is left as it is: another version of the client wrote the entry" in printed
    assert [path for path in connected.rglob("*") if path.is_file()] == [connected / "a.xml"]


def test_check_names_what_is_wrong_with_client_and_program_of_others(
    connected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def checked() -> str:
        run(connected, "connect", "--check")
        return capsys.readouterr().out

    program = Account(connected).program
    foreign = tmp_path / "bin" / "convmemory"
    foreign.parent.mkdir()
    monkeypatch.setenv("PATH", str(foreign.parent))
    assert f"{program}: this version of the client" in checked()
    foreign.write_text("#!/usr/bin/python3\nfrom convmemory_push.__main__ import main\n")
    foreign.chmod(0o755)
    assert str(foreign) not in checked()
    foreign.write_text("#!/usr/bin/python3\nfrom convmemory.cli import main\n")
    assert f"{foreign}: a program of others" in checked()
    program.write_bytes(program.read_bytes().replace(interpreter().encode(), b"/gone/python3", 1))
    assert "needs /gone/python3, which is gone" in checked()
    monkeypatch.setattr("convmemory.push.__main__.own_modules", dict)
    assert connect(connected) == 0
    assert "is another version of the client" in checked()
    program.write_bytes(b"")
    assert "cannot be read" in checked()
    program.unlink()
    assert "is missing: the agents go on without memory" in checked()


def test_client_alone_can_be_put_in_place_for_plug_ins(home: Path) -> None:
    (home / ".claude").mkdir()
    assert connect(home, "--client-only") == 0
    assert list((home / ".claude").iterdir()) == []
    commands = re.findall(r'"command": ("/bin/sh -c .*"),', "".join(plugin_files().values()))
    assert len(commands) == 8
    for command in map(json.loads, commands):
        assert outcome(command, home) == (0, "")
    assert len((home / ".local/state/convmemory/hook.log").read_text().splitlines()) == 8
    server = json.loads(plugin_files()["claude-code/.mcp.json"])["mcpServers"]["convmemory"]
    message = '{"jsonrpc": "2.0", "id": 7, "method": "tools/list"}\n'
    done = subprocess.run(
        [server["command"], *server["args"]],
        input=message,
        env={"HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["id"] == 7
    assert run(home, "disconnect") == 0
    assert [path for path in home.rglob("*") if path.is_file()] == []
    assert {outcome(json.loads(command), home) for command in commands} == {(0, "")}


def test_no_written_file_starts_a_program_by_name(connected: Path) -> None:
    texts = [
        *plugin_files().values(),
        *(path.read_text() for path in connected.rglob("*.js*") if "state" not in path.parts),
    ]
    texts += [path.read_text() for path in connected.rglob("*") if path.suffix in (".toml", ".yaml", ".md")]
    assert len(texts) > len(AGENTS)
    for text in texts:
        for command in re.findall(r'"?(?:command|cmd|bash)"?(?: =|:) (?:\[\s*)?"((?:[^"\\]|\\.)*)"', text):
            assert command.startswith(("/", "date"))
        assert not re.search(r"(?<![\w/.-])convmemory (?:push|hook|mcp|search|read|connect)", text)


def test_hook_of_windows_ends_with_0_without_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "it's gone" / "convmemory-push"
    claude = next(agent for agent in AGENTS if agent.slug == "claude-code")
    wires = Wires((sys.executable, "-I", str(program)))
    with monkeypatch.context() as patch:
        patch.setattr("sys.platform", "win32")
        lines = [entry.value["hooks"][0]["command"] for entry in entries_of(claude, wires) if entry.target.marker]
    assert len(lines) == 4
    assert {outcome(line, tmp_path) for line in lines} == {(0, "")}
    assert connect(tmp_path, "claude-code") == 0
    program.parent.mkdir()
    shutil.copy(Account(tmp_path).program, program)
    assert {outcome(line, tmp_path) for line in lines} == {(0, "")}
    assert len((tmp_path / ".local/state/convmemory/hook.log").read_text().splitlines()) == 4
