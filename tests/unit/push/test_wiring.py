"""Connecting agents writes only our entries, keeps what people write, and disconnecting restores every byte."""

import json
import os
import re
import shlex
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from convmemory import __version__
from convmemory.mcp_server.clients import shown_path
from convmemory.push import __main__
from convmemory.push.account import Account
from convmemory.push.agents import AGENTS, Agent
from convmemory.push.application import interpreter
from convmemory.push.edits import MISSING, Target, insert, read, remove
from convmemory.push.plugins import plugin_files
from convmemory.push.stores import folders

JSON = """\
{
  // chosen by hand
  "theme": "dark", /* stays */
  "mcpServers": {
    "other": {"command": "other"},
  },
  "permissions": {"allow": ["Bash(ls:*)"]},
  "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "date"}]}]},
}
"""
TOML = '# mine\nmodel = "m"\n\n[mcp_servers.other]\ncommand = "other"\n\n[tools]\nweb = true'
YAML = "# mine\nextensions:\n  other:\n    enabled: true # yes\n\nGOOSE_MODEL: m\n"
CONTENT = {"json": JSON, "toml": TOML, "yaml": YAML}
TOML_ITEMS = '# mine\nactive_model = "m"\n\n[[mcp_servers]]\nname = "other"\ntransport = "stdio"\n\n[tools]\nweb = true'
YAML_ITEMS = "# mine\nname: Mine\nmcpServers:\n  # others\n  - name: other\n    command: other\nmodels: []\n"
ITEMS = {"toml": TOML_ITEMS, "yaml": YAML_ITEMS}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CONVMEMORY_KEY_FILE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.setenv("CONVMEMORY_KEY", "cvm_secret")
    home = tmp_path / "home"
    home.mkdir()
    return home


def run(home: Path, *arguments: str) -> int:
    return __main__.main([*arguments, "--home", str(home)])


def connect(home: Path, *arguments: str) -> int:
    return run(home, "connect", "--server", "http://127.0.0.1:9", *arguments)


def snapshot(home: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and the bytes of everything in the home folder."""
    return {
        str(path.relative_to(home)): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in home.rglob("*")
    }


def path_of(home: Path, file: str) -> Path:
    return Path(file.format_map({name: str(path) for name, path in folders(home=home, environment={}).items()}))


def files_of(home: Path, agent: Agent) -> dict[Path, str]:
    """Return the agent's files that people edit, with the form of each."""
    files = {path_of(home, agent.files[0]): agent.form} if agent.form in CONTENT else {}
    if agent.hook and agent.hook.shape == "groups":
        files.setdefault(path_of(home, agent.hook.file), "json")
    return files


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.slug)
@pytest.mark.parametrize("has_files", [True, False])
@pytest.mark.parametrize("direct", [(), ("--direct",)])
def test_disconnect_restores_home_byte_for_byte(
    home: Path, agent: Agent, has_files: bool, direct: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    path_of(home, agent.folders[0]).mkdir(parents=True)
    if has_files:
        for path, form in files_of(home, agent).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((ITEMS if agent.is_item else CONTENT)[form])
    before = snapshot(home)

    assert connect(home, "--dry-run", *direct) == 0
    assert snapshot(home) == before
    assert f"{agent.name}: would be connected" in capsys.readouterr().out

    assert connect(home, *direct) == 0
    connected = snapshot(home)
    assert f"{agent.name}: connected" in capsys.readouterr().out
    target = Target(agent.form, agent.keys, is_item=agent.is_item)
    assert read(path_of(home, agent.files[0]).read_text(), target, {"name": "convmemory"}) is not MISSING
    is_direct = bool(direct and agent.remote)
    shown = b"".join(
        content for name, (_, content) in connected.items() if not name.startswith((".config/convmemory", ".local"))
    )
    assert (b"cvm_secret" in shown) == is_direct

    assert connect(home, *direct) == 0
    assert snapshot(home) == connected
    assert f"{agent.name}: unchanged" in capsys.readouterr().out

    assert run(home, "disconnect") == 0
    assert snapshot(home) == before


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("toml", "mcp_servers = []\n[tools]\nweb = true\n"),
        ("toml", 'mcp_servers = [\n  { name = "other", transport = "stdio" },\n]\n'),
        ("toml", ""),
        ("yaml", "mcpServers:\n- name: other\n  command: other\nmodels: []"),
        ("yaml", "models: []\nmcpServers:\n"),
        ("yaml", 'mcpServers:\n    - command: other\n      name: "other" # mine\n'),
    ],
)
def test_item_of_list_of_servers_is_inserted_once_and_taken_out(form: str, text: str) -> None:
    target = Target(form, ("mcp_servers" if form == "toml" else "mcpServers",), is_item=True)
    value = {"name": "convmemory", "command": "/opt/x y", "args": ["mcp"], "headers": {"A": "b"}}
    edit = insert(text, target, value)
    parsed = tomllib.loads(edit.text) if form == "toml" else yaml.safe_load(edit.text)
    assert value in parsed[target.keys[0]]
    assert read(edit.text, target, value) == value
    assert remove(edit.text, target, value, inserted=edit.inserted, made=edit.made) == text
    changed = edit.text.replace("/opt/x y", "/opt/mine")
    assert read(changed, target, value) not in (value, MISSING)
    assert remove(changed, target, value, inserted=edit.inserted, made=edit.made) is None


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.slug)
def test_entry_that_person_changed_is_kept_and_named(
    home: Path, agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    path_of(home, agent.folders[0]).mkdir(parents=True)
    connect(home)
    path = path_of(home, agent.files[0])
    edited = path.read_text().replace(str(Account(home).program), "/opt/mine", 1)
    path.write_text(edited)
    capsys.readouterr()
    for arguments in (("connect", "--server", "http://127.0.0.1:9"), ("disconnect",)):
        run(home, *arguments)
        assert path.read_text().count("/opt/mine") == 1
        said = capsys.readouterr().out
        assert str(path) in said
        assert "hand" in said


def test_skill_of_agent_without_mcp_names_commands_of_shell(home: Path) -> None:
    (home / ".pi/agent").mkdir(parents=True)
    (home / ".claude").mkdir()
    connect(home)
    skill = (home / ".pi/agent/skills/convmemory/SKILL.md").read_text()
    command = shlex.join([interpreter(), "-I", str(Account(home).program)])
    assert f"Run `{command} search QUESTION` in the shell" in skill
    assert "MCP" not in skill
    assert "Call `convmemory_search`" in (home / ".claude/skills/convmemory/SKILL.md").read_text()


def test_key_lies_once_and_only_its_owner_reads_it(home: Path) -> None:
    (home / ".claude").mkdir()
    connect(home)
    key = home / ".config/convmemory/key"
    assert key.read_text() == "cvm_secret\n"
    for path in (key, home / ".local/state/convmemory/wired.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [path for path in home.rglob("*") if path.is_file() and b"cvm_secret" in path.read_bytes()] == [key]


def test_entries_survive_rewrite_by_agent_and_are_taken_out(home: Path) -> None:
    """Claude Code writes its files anew, sorted and indented in its own way."""
    (home / ".claude").mkdir()
    (home / ".claude.json").write_text('{"numStartups": 3}')
    (home / ".claude/settings.json").write_text(JSON.replace("// chosen by hand", "").replace("/* stays */", ""))
    before = {"numStartups": 3}
    connect(home)
    for path in (home / ".claude.json", home / ".claude/settings.json"):
        text = path.read_text()
        value = json.loads(text) if path.name == ".claude.json" else parsed(text)
        path.write_text(json.dumps(value | {"added": 1}, indent="\t", sort_keys=True))
    assert connect(home) == 0
    run(home, "disconnect")
    assert json.loads((home / ".claude.json").read_text()) == before | {"added": 1}
    settings = json.loads((home / ".claude/settings.json").read_text())
    assert settings["permissions"] == {"allow": ["Bash(ls:*)"]}
    assert settings["hooks"] == {"SessionStart": [{"hooks": [{"type": "command", "command": "date"}]}]}
    assert settings["mcpServers"] == {"other": {"command": "other"}}


def parsed(text: str) -> Any:
    return {key: read(text, Target("json", (key,)), None) for key in ("theme", "mcpServers", "permissions", "hooks")}


def test_recall_off_takes_hook_out_again(home: Path) -> None:
    (home / ".claude").mkdir()
    connect(home)
    assert "hook prompt claude-code" in (home / ".claude/settings.json").read_text()
    connect(home, "--recall", "ask")
    assert "hook" not in (home / ".claude/settings.json").read_text()
    assert (home / ".claude/skills/convmemory/SKILL.md").exists()
    connect(home, "--recall", "off")
    assert not (home / ".claude/skills").exists()
    assert "mcp__convmemory" in (home / ".claude/settings.json").read_text()


def test_broken_file_is_left_alone_and_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text('{\n"mcpServers": {oops}\n}')
    connect(home)
    assert "mcp.json is left as it is: line 2 is not JSON" in capsys.readouterr().out
    assert "oops" in (home / ".cursor/mcp.json").read_text()


def test_linked_file_stays_link(home: Path, tmp_path: Path) -> None:
    (home / ".cursor").mkdir()
    (tmp_path / "dotfiles.json").write_text("{}")
    os.symlink(tmp_path / "dotfiles.json", home / ".cursor/mcp.json")
    connect(home)
    assert (home / ".cursor/mcp.json").is_symlink()
    assert "convmemory" in (tmp_path / "dotfiles.json").read_text()


def test_unknown_agent_is_refused_with_known_ones(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert connect(home, "emacs") == 2
    assert "choose from claude-code, codex" in capsys.readouterr().err
    assert connect(home) == 2
    assert "No agent is found" in capsys.readouterr().out


def test_only_named_agents_are_disconnected(home: Path) -> None:
    for folder in (".cursor", ".claude"):
        (home / folder).mkdir()
    connect(home)
    run(home, "disconnect", "cursor")
    assert not (home / ".cursor/mcp.json").exists()
    assert (home / ".claude.json").exists()
    assert (home / ".config/convmemory/key").exists()


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("json", ""),
        ("json", "{}"),
        ("json", '{"a": 1}'),
        ("json", '{"mcp": {}}'),
        ("json", '{"mcp": {"b": 1}}'),
        ("json", '\ufeff{\r\n  "mcp": {\r\n    "b": "}"\r\n  }\r\n}\r\n'),
        ("json", '{\n\t"mcp": { // none yet\n\t},\n}'),
        ("toml", ""),
        ("toml", "[mcp.b]\nx = 1"),
        ("yaml", ""),
        ("yaml", "mcp:\n# none yet\n"),
        ("yaml", "a: 1\nmcp:\n    b:\n        c: 1\n"),
        ("yaml", "mcp:"),
    ],
)
@pytest.mark.parametrize("is_exact", [True, False])
def test_insertion_can_be_read_and_removed(form: str, text: str, is_exact: bool) -> None:
    target, value = Target(form, ("mcp", "convmemory")), {"command": "/x y", "args": ["a", "\u00e9"]}
    assert read(text, target, value) is MISSING
    edit = insert(text, target, value)
    assert read(edit.text, target, value) == value
    left = remove(edit.text, target, value, inserted=edit.inserted if is_exact else "?", made=edit.made)
    assert left is not None
    assert left == text if is_exact else "".join(left.split()) in ("".join(text.split()), "{}", "mcp:")
    changed = edit.text.replace("/x y", "/z")
    assert remove(changed, target, value, inserted=edit.inserted, made=edit.made) is None


def test_plugins_of_marketplaces_are_those_of_table() -> None:
    folder = Path(__file__).resolve().parents[3] / "deploy" / "plugins"
    written = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert written == plugin_files(), "run `make plugins`"
    about = [json.loads(text) for name, text in written.items() if name.endswith(("plugin.json", "extension.json"))]
    assert {each["version"] for each in about} == {__version__}
    for text in written.values():
        assert not re.search(r"https?://|Bearer|cvm_|/home/|trust", text)


def test_docs_list_every_agent_with_its_file() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "agents.md").read_text(encoding="utf-8")
    for agent in AGENTS:
        memory = ", ".join(name for name in ("hook", "skill") if getattr(agent, name)) or "no"
        row = f"| {agent.name} (`{agent.slug}`) | `{shown_path(agent)}` | {memory} | {agent.tried or 'not tried'} |"
        assert row in page
