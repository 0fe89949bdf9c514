"""`convmemory-push`: the client of this machine, in Python alone.

`connect` wires the coding agents to the server: they start this client's `mcp` and `hook`. `push` sends what they have
written, `pause` and `resume` stop and continue both, and without a pause `resume` says where the work in a folder
stopped. Without a command it pushes.
"""

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

if not __package__:  # `python FOLDER`, as the entries of agents call it: the folder is loaded as a package
    import importlib.util

    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        "convmemory_push", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} is no package")
    sys.modules["convmemory_push"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["convmemory_push"])
    sys.path.remove(sys.path[0])
    __package__ = "convmemory_push"

from . import hook, stdio
from .account import Account
from .agents import AGENTS, RECALL, Wires
from .application import PROGRAM, interpreter, interpreter_of, modules_of, own_modules
from .pushing import ERROR_EXIT, OFFLINE_EXIT, arrivals, in_words, push, push_once
from .repositories import Repository, repository_of
from .rules import Rules
from .sending import Offline, PushError, Server, detail_of, request
from .stores import existing_stores, is_of_chats
from .wiring import Wiring, chosen_agents

MAX_FILE_CHARS = 1_000_000
COMMANDS = ("push", "connect", "disconnect", "pause", "resume", "project", "mcp", "hook", "search", "read", "why")
FORMER_COMMAND = "convmemory"
"""Started by entries of earlier versions, and the name of a program of others."""


def main(arguments: Sequence[str] | None = None, *, key: str = "") -> int:
    """Run the command and return its exit code. `key` is used instead of the key of the environment or the file.

    0: it is done, and always for `hook`; 3: the server does not answer; 2: a person has to act.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["hook"]:
        return _hook(words)
    if not words or words[0] not in (*COMMANDS, "-h", "--help"):
        words = ["push", *words]
    options = _parser().parse_args(words, argparse.Namespace(key=key))
    try:
        return _DO[options.command](options)
    except Offline as error:
        print(error, file=sys.stderr)
        return OFFLINE_EXIT
    except PushError as error:
        print(error, file=sys.stderr)
        return ERROR_EXIT


def own_command() -> tuple[str, ...]:
    """Return the command that starts this program from anywhere."""
    folder = Path(__file__).resolve().parent
    if not folder.is_dir():  # in the file that `connect` has written
        return sys.executable, "-I", str(folder.parent)
    return sys.executable, str(folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--server", default="", help="the server's address; or CONVMEMORY_SERVER")
    shared.add_argument(
        "--home", type=Path, default=Path.home(), help="home folder of the agents' user (default: your own)"
    )
    push = commands.add_parser("push", parents=[shared], help="send the conversations of this machine's agents")
    push.add_argument("folder", nargs="?", type=Path, help="only the transcripts in this folder")
    push.add_argument("--space", default="", help="send them to this space, by name or number, if the key writes to it")
    push.add_argument("--state", type=Path, help="folder for the record of what was sent")
    push.add_argument("--every", type=float, default=0, metavar="SECONDS", help="repeat at this interval")
    push.add_argument("--list", action="store_true", help="only list what would be sent")
    push.add_argument("--yes", action="store_true", help="agree to what is sent, without a question")
    push.add_argument("--session", default="", help="only the session with this id, as a hook does at its end")
    push.add_argument("--transcript", default="", help="only the session in this file")
    push.add_argument("--agent", default="", help="the agent whose hook sends it")
    push.add_argument("--wait", type=Path, help="after some seconds, unless this file is gone: a turn's hook made it")
    slugs = ", ".join(agent.slug for agent in AGENTS)
    connect = commands.add_parser("connect", parents=[shared], help="wire the agents of this machine to the server")
    connect.add_argument("agents", nargs="*", metavar="AGENT", help=f"only these, even if they are not found: {slugs}")
    connect.add_argument(
        "--recall", choices=RECALL, default="auto",
        help="off: tools alone; ask: and a skill that says when to use them; auto: and a hook that recalls by itself",
    )  # fmt: skip
    connect.add_argument("--yes", action="store_true", help="send the sessions that are listed, without a question")
    connect.add_argument(
        "--client-only", action="store_true", help="wire no agent: the client and the key, for the agents' plug-ins"
    )
    connect.add_argument("--direct", action="store_true", help="write address and key into the agents' files")
    connect.add_argument("--dry-run", action="store_true", help="only say what would be written")
    connect.add_argument("--check", action="store_true", help="only check the entries, the server and the hook")
    disconnect = commands.add_parser("disconnect", parents=[shared], help="take the entries out again")
    disconnect.add_argument("agents", nargs="*", metavar="AGENT", help="only these")
    disconnect.add_argument("--dry-run", action="store_true", help="only say what would be taken out")
    commands.add_parser("pause", parents=[shared], help="send nothing and recall nothing until `resume`")
    resume = commands.add_parser("resume", parents=[shared], help="end a pause, or say where a project's work stopped")
    resume.add_argument("folder", nargs="?", type=Path, default=Path(), help="a folder of it (default: this one)")
    commands.add_parser("mcp", parents=[shared], help="MCP on standard input and output, for an agent")
    searches = commands.add_parser("search", parents=[shared], help="search the archive, a line for each hit")
    searches.add_argument("question", nargs="+")
    searches.add_argument("--project", default="", help="only of this folder")
    searches.add_argument("--space", default="", help="mine, or only this space, by name or number")
    searches.add_argument("--limit", type=int, default=5, help="hits at most")
    reads = commands.add_parser("read", parents=[shared], help="read a conversation, or one turn of it")
    reads.add_argument("conversation_id", type=int)
    reads.add_argument("turn", type=int, nargs="?")
    whys = commands.add_parser("why", parents=[shared], help="the turns that edited a file, or that wrote a line of it")
    whys.add_argument("file", metavar="FILE[:LINE]")
    project = commands.add_parser(
        "project", parents=[shared], help="the folders of a project; join it, or keep one apart"
    )
    project.add_argument(
        "folder", nargs="?", type=Path, default=Path(), help="the project's folder (default: this one)"
    )
    changes = project.add_mutually_exclusive_group()
    changes.add_argument("--join", metavar="PROJECT", default="", help="make it one with this project, by its path")
    changes.add_argument("--apart", action="store_true", help="recall in this folder only what was said in it")
    changes.add_argument("--together", action="store_true", help="undo --apart")
    project.add_argument(
        "--worktrees", action="store_true", help="of --apart and --together: each worktree of the folder"
    )
    hooks = commands.add_parser("hook", parents=[shared], help="an agent's hook: adds memory to a prompt")
    hooks.add_argument("event", choices=hook.EVENTS)
    hooks.add_argument("agent", metavar="AGENT")
    return parser


def _connect(options: argparse.Namespace) -> int:
    _check_names(options.agents)
    account = Account(options.home)
    wiring = Wiring(account, is_dry=options.dry_run)
    if options.check:
        return _check(wiring, account, options)
    server = _server(options)
    command = (interpreter(), "-I", str(account.program))
    wires = Wires(command, server.address, server.key, options.recall, options.direct)
    agents = [] if options.client_only else chosen_agents(options.agents, wiring.installed())
    if not agents and not options.client_only:
        print("No agent is found on this machine. Name one to wire it all the same, such as claude-code.")
        return ERROR_EXIT
    wiring.save_client(wires)
    for agent in agents:
        lines = wiring.connect(agent, wires)
        print(f"{agent.name}: {'would be connected' if options.dry_run else 'connected' if lines else 'unchanged'}")
        for line in lines:
            print(f"  {line}")
        if lines and agent.note:
            print(f"  {agent.note}")
    print(f'"{account.program}" disconnect   # undoes it')
    if options.dry_run:
        return 0
    offer = argparse.Namespace(
        **{**vars(options), "key": server.key, "server": server.address},
        folder=None, space="", state=None, list=False, session="", transcript="", agent="", wait=None,
    )  # fmt: skip
    return push_once(offer, is_offer=True)


def _disconnect(options: argparse.Namespace) -> int:
    _check_names(options.agents)
    wiring = Wiring(Account(options.home), is_dry=options.dry_run)
    slugs = [slug for slug in wiring.wired() if not options.agents or slug in options.agents]
    if not slugs:
        print("No agent is connected.")
    for name, lines in wiring.disconnect(slugs):
        print(f"{name}: {'would be disconnected' if options.dry_run else 'disconnected'}")
        for line in lines:
            print(f"  {line}")
    return 0


def _check(wiring: Wiring, account: Account, options: argparse.Namespace) -> int:
    """Say what is wired and what is wrong with it, what stays here, what the server says, and what the hook did."""
    wired = wiring.wired()
    agents = chosen_agents(options.agents, [agent for agent in AGENTS if agent.slug in wired])
    faults = {agent.slug: wiring.faults(agent) for agent in agents}
    for agent in agents:
        print(f"{agent.name}: {'the entries are in place' if not faults[agent.slug] else 'look at these entries:'}")
        for line in [*faults[agent.slug], *([agent.note] if agent.note else [])]:
            print(f"  {line}")
    sent = arrivals(account)
    for agent in agents:
        if agent.hook:
            print(f"{agent.name}: {_in_words(sent.get(agent.slug, {}))}")
    if not agents:
        print(f"No agent is connected: run `{PROGRAM} connect`.")
    fault = _fault_of_client(account)
    print(fault or f"{account.program}: this version of the client")
    other = shutil.which(FORMER_COMMAND)
    if other and not any(ours in _beginning(Path(other)) for ours in (b"convmemory_push", b"convmemory.__main__")):
        print(f"{other}: a program of others, which no entry of this client starts")
    _show_rules(account)
    server = _server(options)
    status, _ = request(server, "GET", "/api/v1/index/status")
    print(f"{server.address}: {'accepts the key' if status == 200 else f'refuses the key (status {status})'}")
    counts = hook.outcomes(account)
    if counts:
        print("Hook: " + ", ".join(f"{outcome} {count}" for outcome, count in counts.most_common()))
    return 0 if status == 200 and agents and not any(faults.values()) and not fault else ERROR_EXIT


def _in_words(arrival: Mapping[str, Any]) -> str:
    """Return when an agent's last session was sent by itself, and what happened at its last end if that failed."""
    if not arrival:
        return "no session was sent by its hook yet"
    at, outcome = arrival.get("sent_at"), arrival.get("outcome")
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else "never"
    return f"the last session was sent {day}" + ("" if outcome == "sent" else f"; the last end: {outcome}")


def _fault_of_client(account: Account) -> str:
    """Return what is wrong with the client that agents start, or an empty string."""
    again = f"run `{PROGRAM} connect` again"
    try:
        python = interpreter_of(account.program)
        is_same = modules_of(account.program) == own_modules()
    except FileNotFoundError:
        return f"{account.program} is missing: the agents go on without memory; {again}"
    except (OSError, ValueError, IndexError, zipfile.BadZipFile) as error:
        return f"{account.program} cannot be read ({error}); {again}"
    if not Path(python).exists():
        return f"{account.program} needs {python}, which is gone; {again}"
    return "" if is_same else f"{account.program} is another version of the client; {again}"


def _beginning(path: Path) -> bytes:
    try:
        return path.read_bytes()[: 1024**2]
    except OSError:
        return b""


def _show_rules(account: Account) -> None:
    """Print which rules are in force, and the files of agents that they leave out."""
    rules = Rules.of(account)
    if rules.stop:
        print(f"Nothing is sent or recalled: {rules.stop}.")
    if rules.projects is not None:
        print(f"Only these projects ({account.projects_file}): {', '.join(rules.projects) or 'none'}")
    files = ((store, path) for store in existing_stores(home=account.home) for path in store.files())
    verdicts = (rules.of_file(store, path) for store, path in files if is_of_chats(store, path))
    for reason, count in Counter(verdict.reason for verdict in verdicts if verdict.reason).most_common():
        print(f"Left out: {in_words(count)}: {reason}")


def _pause(options: argparse.Namespace) -> int:
    path = Account(options.home).pause_file
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch()
    print(f"Paused: nothing is sent or recalled until `{PROGRAM} resume`.")
    return 0


def _resume(options: argparse.Namespace) -> int:
    """End a pause; without one, print where the work in the folder's project stopped."""
    account, folder = Account(options.home), os.path.abspath(options.folder)
    if os.path.lexists(account.pause_file):
        account.pause_file.unlink()
        print(f"Resumed. `{PROGRAM} push` sends what was written meanwhile.")
        return 0
    about = asdict(repository_of(folder, home=options.home) or Repository("", ""))
    answer = _call(_server(options), "POST", "/api/v1/projects/left_off", {"project": folder, "repository": about})
    print(answer.get("text") or f"Of {folder} there is no conversation.")
    return 0


def _check_names(slugs: Sequence[str]) -> None:
    unknown = sorted(set(slugs) - {agent.slug for agent in AGENTS})
    if unknown:
        slugs_known = ", ".join(agent.slug for agent in AGENTS)
        raise PushError(f"There is no agent {', '.join(unknown)}: choose from {slugs_known}.")


def _mcp(options: argparse.Namespace) -> int:
    stdio.serve(_server(options))
    return 0


def _search(options: argparse.Namespace) -> int:
    asked = {"query": " ".join(options.question), "project": options.project, "limit": options.limit}
    if options.space:  # servers before spaces refuse the name of an argument that they do not know
        asked["space"] = options.space
    print(stdio.call_tool(_server(options), "search", asked))
    return 0


def _read(options: argparse.Namespace) -> int:
    turns = {} if options.turn is None else {"from_turn": options.turn, "to_turn": options.turn}
    print(stdio.call_tool(_server(options), "read_conversation", {"conversation_id": options.conversation_id, **turns}))
    return 0


def _why(options: argparse.Namespace) -> int:
    """Print the turns that edited a file of a repository, and with a line the one that wrote it."""
    named, _, line = options.file.rpartition(":")
    if not named or not line.isdecimal():
        named, line = options.file, ""
    path = Path(os.path.abspath(named))
    about = repository_of(str(path.parent), home=options.home) or Repository("", str(Path.cwd()))
    asked = {"file": os.path.relpath(path, about.root) if path.is_relative_to(about.root) else str(path)}
    asked["project"] = about.identity or about.main or about.root
    if line:
        asked["file"] += f":{line}"
        try:
            asked["text"] = path.read_text(encoding="utf-8", errors="replace")[:MAX_FILE_CHARS]
        except OSError as error:
            raise PushError(f"{path} cannot be read: {error.strerror}.") from error
    print(stdio.call_tool(_server(options), "why", asked))
    return 0


def _project(options: argparse.Namespace) -> int:
    """Join a project with another, or keep a folder apart, and print the folders of the project."""
    server, folder = _server(options), os.path.abspath(options.folder)
    if options.worktrees and not (options.apart or options.together):
        raise PushError("--worktrees goes with --apart or --together.")
    if options.join:
        _call(server, "POST", "/api/v1/projects/rename", {"project": folder, "name": options.join})
        folder = options.join
    elif options.apart or options.together:
        change = {"folder": folder, "each_worktree": options.worktrees, "is_apart": options.apart}
        _call(server, "POST", "/api/v1/projects/folders", change)
    rows = _call(server, "GET", f"/api/v1/projects/folders?{urlencode({'project': folder})}")["results"]
    for row in rows:
        about = [
            row["repository"],
            "worktree" if row["folder"] != row["main"] else "",
            "kept apart" if row["apart"] else "",
        ]
        print("  ".join([f"{row['conversations']:>6}", row["folder"], *filter(None, about)]))
    if not rows:
        print(f"Of {folder} there is no conversation.")
    return 0


def _call(server: Server, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the API answers. Raises: PushError."""
    sent = json.dumps(body).encode() if body else b""
    status, answer = request(server, method, path, sent, {"Content-Type": "application/json"})
    if status >= 400:
        raise PushError(f"{detail_of(answer)} (status {status})")
    return dict(json.loads(answer)) if answer else {}


def _hook(arguments: Sequence[str]) -> int:
    """Run the hook and return 0, whatever happens: agents take other codes for an order to stop the prompt."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            options = _parser().parse_args(arguments)
    except SystemExit:  # arguments of another version of the client
        return 0
    account = Account(options.home)
    try:
        text = hook.run(options.event, options.agent, account, own_command())
        if text:
            print(text, flush=True)
    except Exception as error:
        hook.log(account, options.event, options.agent, f"error-{type(error).__name__}")
        return 0
    # A thread may still wait for the agent or the server.
    os._exit(0)


def _server(options: argparse.Namespace) -> Server:
    """Return the server with its key. Raises: PushError."""
    account = Account(options.home)
    return Server(options.server or account.address(), options.key or account.key())


_DO = {
    "push": push,
    "connect": _connect,
    "disconnect": _disconnect,
    "mcp": _mcp,
    "pause": _pause,
    "resume": _resume,
    "project": _project,
    "search": _search,
    "read": _read,
    "why": _why,
}


if __name__ == "__main__":
    sys.exit(main())
