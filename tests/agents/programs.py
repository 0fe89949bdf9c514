"""The table of agents that `make agents` installs and runs: their packages, versions, and how they reach a model."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pytest

from tests.support.chat_server import MODEL
from tests.support.installation import ROOT

PACKAGES = ROOT / "var" / "agents"
INSTALL_S, RUN_S = 600, 300
NEWEST = os.environ.get("NEWEST", "") not in ("", "0")
KEY = "secret"


@dataclass(frozen=True, slots=True)
class Program:
    """One agent: its npm package with the version that was tried, its program, and the arguments of a prompt.

    In `ask`, `again` (which continues the session), `environment` and `files` (of the home folder), `$PROMPT`, `$WORDS`
    (the prompt as several arguments), `$URL` (of the model's server), `$KEY` and `$MODEL` are filled in. `sessions` is
    the source of its imported conversations, and the folder of their fixtures. `is_recorded` says that it speaks one of
    the formats that the proxy records.
    """

    slug: str
    package: str
    version: str
    command: str
    ask: tuple[str, ...]
    again: tuple[str, ...]
    sessions: str
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    is_recorded: bool = True


def _opencode(folder: str, name: str) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "stub",
        "options": {"baseURL": "$URL/v1", "apiKey": "$KEY"},
        "models": {"$MODEL": {"name": "stub"}},
    }
    settings = {"provider": {"stub": provider}, "model": "stub/$MODEL", "small_model": "stub/$MODEL"}
    return {f".config/{folder}/{name}": json.dumps({**settings, "autoupdate": False}, indent=2)}


_CODEX = """\
# made by hand
model = "$MODEL"
model_provider = "stub"

[model_providers.stub]
name = "stub"
base_url = "$URL/v1"
env_key = "STUB_KEY"
wire_api = "responses"
"""

_GEMINI = """\
{
  // chosen by hand
  "security": {"auth": {"selectedType": "gemini-api-key"}}
}
"""

_MAY_FAIL = ("--allowedTools", "Bash(make water)")  # it runs no command unasked, and a refused one has not failed

PROGRAMS = (
    Program(
        "claude-code", "@anthropic-ai/claude-code", "2.1.332", "claude",
        ("-p", "$PROMPT", *_MAY_FAIL), ("-p", "--continue", "$PROMPT", *_MAY_FAIL), "claude-code",
        {
            "ANTHROPIC_BASE_URL": "$URL", "ANTHROPIC_API_KEY": "$KEY", "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    Program(
        "codex", "@openai/codex", "0.169.0", "codex",
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", "$PROMPT"),
        ("exec", "resume", "--last", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", "$PROMPT"), "codex",
        {"STUB_KEY": "$KEY"}, {".codex/config.toml": _CODEX},
    ),
    Program(
        "gemini-cli", "@google/gemini-cli", "0.61.0", "gemini",
        ("-p", "$PROMPT"), ("--resume", "latest", "-p", "$PROMPT"), "gemini-cli",
        {
            "GEMINI_API_KEY": "$KEY", "GOOGLE_GEMINI_BASE_URL": "$URL", "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_MODEL": "gemini-2.5-flash",
        },
        {".gemini/settings.json": _GEMINI},
        is_recorded=False,
    ),
    Program(
        "copilot-cli", "@github/copilot", "1.0.102", "copilot",
        ("-p", "$PROMPT", "--allow-all-tools"), ("--continue", "-p", "$PROMPT", "--allow-all-tools"), "copilot-cli",
        {
            "COPILOT_PROVIDER_BASE_URL": "$URL/v1", "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_API_KEY": "$KEY", "COPILOT_MODEL": "$MODEL", "COPILOT_OFFLINE": "true",
        },
    ),
    Program(
        "opencode", "opencode-ai", "1.18.33", "opencode",
        ("run", "$WORDS"), ("run", "--continue", "$WORDS"), "opencode",
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
        _opencode("opencode", "opencode.json"),
    ),
    Program(
        "kilo", "@kilocode/cli", "7.7.7", "kilo",
        ("run", "$WORDS"), ("run", "--continue", "$WORDS"), "kilo",
        # Without these it waits for servers of its vendor.
        {
            "KILO_DISABLE_MODELS_FETCH": "1", "KILO_DISABLE_AUTOUPDATE": "1", "KILO_DISABLE_CODEBASE_INDEXING": "1",
            "KILO_DISABLE_SESSION_INGEST": "1", "KILO_TELEMETRY_LEVEL": "off",
        },
        _opencode("kilo", "kilo.json"),
    ),
    Program(
        "qwen", "@qwen-code/qwen-code", "0.24.4", "qwen",
        ("-p", "$PROMPT"), ("--continue", "-p", "$PROMPT"), "qwen-code",
        {"OPENAI_API_KEY": "$KEY", "OPENAI_BASE_URL": "$URL/v1", "OPENAI_MODEL": "$MODEL"},
        {".qwen/settings.json": '{"security": {"auth": {"selectedType": "openai"}}}\n'},
    ),
)  # fmt: skip


def install(program: Program) -> tuple[Path, str]:
    """Return the installed program and its version: the pinned one, or with NEWEST=1 the newest of the registry.

    A newest version that npm cannot install is skipped: its vendor has to mend it.
    """
    folder = PACKAGES / (f"{program.slug}-newest" if NEWEST else f"{program.slug}-{program.version}")
    manifest = folder / "node_modules" / program.package / "package.json"
    if NEWEST or not manifest.exists():
        shutil.rmtree(folder, ignore_errors=True)  # also what an interrupted installation left
        folder.mkdir(parents=True)
        wanted = f"{program.package}@{'latest' if NEWEST else program.version}"
        command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", wanted]
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        if done.returncode:
            shutil.rmtree(folder)
        if done.returncode and NEWEST:  # @kilocode/cli 7.8.1 names packages of platforms that npm does not have
            pytest.skip(f"npm cannot install {wanted}: {done.stderr.strip().splitlines()[-2:]}")
        assert done.returncode == 0, f"npm cannot install {wanted}:\n{done.stderr[-2_000:]}"
    return folder / "node_modules" / ".bin" / program.command, json.loads(manifest.read_text())["version"]


@dataclass(frozen=True, slots=True)
class Home:
    """A home folder of one agent, with a project folder in it and the settings by which the agent reaches the model."""

    program: Program
    executable: Path
    folder: Path
    model: str
    key: str = KEY

    @property
    def project(self) -> Path:
        return self.folder / "work" / "waterworks"

    def make(self) -> None:
        self.project.mkdir(parents=True)
        (self.folder / "tmp").mkdir()
        for name, text in self.program.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._filled(text))

    def run(self, prompt: str, *, again: bool = False, folder: Path | None = None) -> str:
        """Run the agent with a prompt, continuing its last session with `again`; return what it printed."""
        arguments = self.program.again if again else self.program.ask
        filled = [prompt.split() if part == "$WORDS" else [self._filled(part, prompt)] for part in arguments]
        return self.start([str(self.executable), *chain.from_iterable(filled)], RUN_S, folder)

    def start(self, command: list[str], timeout_s: float, folder: Path | None = None, /, **environment: str) -> str:
        given = {name: self._filled(value) for name, value in self.program.environment.items()} | environment
        process = subprocess.Popen(
            command, cwd=folder or self.project, env=self._surroundings() | given, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with what it started, which holds its output open
            said, _ = process.communicate()
            raise AssertionError(f"{command} did not end within {timeout_s} s:\n{said[-3_000:]}") from None
        assert process.returncode == 0, f"{command} ended with {process.returncode}:\n{said[-3_000:]}"
        return said

    def snapshot(self) -> dict[str, bytes]:
        """Return the content of every file of the home folder by its path, without temporary ones.

        Among these is the memory that readers of a SQLite database share (`-shm`), which reading changes.
        """
        paths = [
            path for path in self.folder.rglob("*")
            if path.is_file() and not path.is_symlink() and not path.is_relative_to(self.folder / "tmp")
            and not path.name.endswith("-shm")
        ]  # fmt: skip
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}

    def _surroundings(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
        }

    def _filled(self, text: str, prompt: str = "") -> str:
        for name, value in (("$PROMPT", prompt), ("$URL", self.model), ("$KEY", self.key), ("$MODEL", MODEL)):
            text = text.replace(name, value)
        return text
