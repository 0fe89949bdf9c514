"""`convmemory push | connect | disconnect | mcp | hook | search | read`: the client of this machine, in Python alone.

`push` sends what the coding agents have written since the last time; `connect` wires them to the server, so that they
run `convmemory mcp` and `convmemory hook`. `convmemory-push` is `convmemory push`.
"""

import argparse
import os
import shlex
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

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
from .ledger import Ledger
from .packing import Item, batches, pack, unsent
from .places import existing_places, places_within
from .sending import Answer, Offline, PushError, Server, request, send, space_to_write
from .wiring import Wiring, chosen_agents

OFFLINE_EXIT, ERROR_EXIT = 3, 2
COMMANDS = ("push", "connect", "disconnect", "mcp", "hook", "search", "read")


def main(arguments: Sequence[str] | None = None, *, key: str = "") -> int:
    """Run the command and return its exit code. `key` is used instead of the key of the environment or the file.

    0: it is done; 3: the server does not answer; 2: a person has to act.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] not in (*COMMANDS, "-h", "--help") or Path(sys.argv[0]).stem == "convmemory-push":
        given = ["push", *given]
    options = _parser().parse_args(given, argparse.Namespace(key=key))
    try:
        return _DO[options.command](options)
    except Offline as error:
        print(error, file=sys.stderr)
        return OFFLINE_EXIT
    except PushError as error:
        print(error, file=sys.stderr)
        return ERROR_EXIT


def own_command() -> tuple[str, ...]:
    """Return the command that starts this program from anywhere, for the entries of agents."""
    folder = Path(__file__).resolve().parent
    script = Path(sys.executable).with_name("convmemory.exe" if sys.platform == "win32" else "convmemory")
    if folder.name == "convmemory_push" and script.exists():
        return (str(script),)
    return sys.executable, str(folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="convmemory", description=(__doc__ or "").partition("\n")[0])
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
    slugs = ", ".join(agent.slug for agent in AGENTS)
    connect = commands.add_parser("connect", parents=[shared], help="wire the agents of this machine to the server")
    connect.add_argument("agents", nargs="*", metavar="AGENT", help=f"only these, even if they are not found: {slugs}")
    connect.add_argument(
        "--recall", choices=RECALL, default="auto",
        help="off: tools alone; ask: and a skill that says when to use them; auto: and a hook that recalls by itself",
    )  # fmt: skip
    connect.add_argument("--direct", action="store_true", help="write address and key into the agents' files")
    connect.add_argument("--dry-run", action="store_true", help="only say what would be written")
    connect.add_argument("--check", action="store_true", help="only check the entries, the server and the hook")
    disconnect = commands.add_parser("disconnect", parents=[shared], help="take the entries out again")
    disconnect.add_argument("agents", nargs="*", metavar="AGENT", help="only these")
    disconnect.add_argument("--dry-run", action="store_true", help="only say what would be taken out")
    commands.add_parser("mcp", parents=[shared], help="MCP on standard input and output, for an agent")
    searches = commands.add_parser("search", parents=[shared], help="search the archive, a line for each hit")
    searches.add_argument("question", nargs="+")
    searches.add_argument("--project", default="", help="only of this folder")
    searches.add_argument("--space", default="", help="mine, or only this space, by name or number")
    searches.add_argument("--limit", type=int, default=5, help="hits at most")
    reads = commands.add_parser("read", parents=[shared], help="read a conversation, or one turn of it")
    reads.add_argument("conversation_id", type=int)
    reads.add_argument("turn", type=int, nargs="?")
    hooks = commands.add_parser("hook", parents=[shared], help="an agent's hook: adds memory to a prompt")
    hooks.add_argument("event", choices=hook.EVENTS)
    hooks.add_argument("agent", metavar="AGENT")
    return parser


# --- agents ---------------------------------------------------------------------------------------


def _connect(options: argparse.Namespace) -> int:
    _check_names(options.agents)
    account = Account(options.home)
    wiring = Wiring(account, is_dry=options.dry_run)
    if options.check:
        return _check(wiring, account, options)
    server = _server(options)
    wires = Wires(own_command(), server.address, server.key, options.recall, options.direct)
    agents = chosen_agents(options.agents, wiring.installed())
    if not agents:
        print("No agent is found on this machine. Name one to wire it all the same, such as claude-code.")
        return ERROR_EXIT
    wiring.save_account(wires)
    for agent in agents:
        lines = wiring.connect(agent, wires)
        print(f"{agent.name}: {'would be connected' if options.dry_run else 'connected' if lines else 'unchanged'}")
        for line in lines:
            print(f"  {line}")
        if lines and agent.note:
            print(f"  {agent.note}")
    print(f"{shlex.join(own_command())} disconnect   # undoes it")
    return 0


def _disconnect(options: argparse.Namespace) -> int:
    _check_names(options.agents)
    wiring = Wiring(Account(options.home), is_dry=options.dry_run)
    agents = chosen_agents(options.agents, wiring.wired())
    if not agents:
        print("No agent is connected.")
    for agent, lines in wiring.disconnect(agents):
        print(f"{agent.name}: {'would be disconnected' if options.dry_run else 'disconnected'}")
        for line in lines:
            print(f"  {line}")
    return 0


def _check(wiring: Wiring, account: Account, options: argparse.Namespace) -> int:
    """Say what is wired, what is wrong with it, whether the server accepts the key, and what the hook did."""
    agents = chosen_agents(options.agents, wiring.wired())
    faults = {agent.slug: wiring.faults(agent) for agent in agents}
    for agent in agents:
        print(f"{agent.name}: {'the entries are in place' if not faults[agent.slug] else 'look at these entries:'}")
        for line in [*faults[agent.slug], *([agent.note] if agent.note else [])]:
            print(f"  {line}")
    if not agents:
        print("No agent is connected: run `convmemory connect`.")
    server = _server(options)
    status, _ = request(server, "GET", "/api/v1/index/status")
    print(f"{server.address}: {'accepts the key' if status == 200 else f'refuses the key (status {status})'}")
    counts = hook.outcomes(account)
    if counts:
        print("Hook: " + ", ".join(f"{outcome} {count}" for outcome, count in counts.most_common()))
    return 0 if status == 200 and agents and not any(faults.values()) else ERROR_EXIT


def _check_names(slugs: Sequence[str]) -> None:
    unknown = sorted(set(slugs) - {agent.slug for agent in AGENTS})
    if unknown:
        known = ", ".join(agent.slug for agent in AGENTS)
        raise PushError(f"There is no agent {', '.join(unknown)}: choose from {known}.")


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


def _hook(options: argparse.Namespace) -> int:
    text = hook.run(options.event, options.agent, Account(options.home), own_command())
    if text:
        print(text, flush=True)
    # A thread may still wait for the agent or the server.
    os._exit(0)


def _server(options: argparse.Namespace) -> Server:
    """Return the server with its key. Raises: PushError."""
    account = Account(options.home)
    return Server(options.server or account.address(), options.key or account.key())


# --- push -----------------------------------------------------------------------------------------


def _push(options: argparse.Namespace) -> int:
    while True:
        code = _run(options)
        if not options.every or code == ERROR_EXIT:
            return code
        time.sleep(options.every)


def _run(options: argparse.Namespace) -> int:
    state: Path = options.state or options.home / ".local" / "state" / "convmemory-push" / "ledger.db"
    try:
        account = Account(options.home)
        if options.folder and not options.folder.is_dir():
            raise PushError(f"There is no folder {options.folder}.")
        places = (
            places_within(options.folder, home=options.home) if options.folder else existing_places(home=options.home)
        )
        needs_key = options.space or not options.list
        server = Server(options.server or account.address(), account.key() if needs_key else "")
        with Ledger(state) as ledger:
            space = space_to_write(server, options.space) if options.space else None
            # What was sent to a space is recorded apart from what was sent to the owner's archive.
            target = server.address if space is None else f"{server.address} space {space}"
            waiting = list(unsent(places, server=target, ledger=ledger))
            print(f"{len(waiting)} files to send")
            if options.list:
                for item in waiting:
                    print(f"  {item.path}")
                return 0
            counts = {"taken": 0, "refused": 0, "left": 0}
            todo = list(batches(waiting))[::-1]
            while todo:
                batch = todo.pop()
                answer = _send_batch(batch, server, space)
                if not answer.taken and len(batch) > 1:
                    half = len(batch) // 2  # halves isolate the file that fails
                    todo += [batch[half:], batch[:half]]
                    continue
                counts[answer.outcome] += len(batch)
                if answer.outcome != "left":
                    ledger.record_sent(target, (item.digest for item in batch), outcome=answer.detail or "taken")
                if not answer.taken:
                    print(f"{batch[0].path}: {answer.detail}", file=sys.stderr)
            print(f"{counts['taken']} files sent, {counts['refused']} refused, {counts['left']} left for the next time")
            return 0
    except Offline as error:
        print(f"{error}. What is left is sent the next time.", file=sys.stderr)
        return OFFLINE_EXIT
    except PushError as error:
        print(error, file=sys.stderr)
        return ERROR_EXIT


def _send_batch(batch: list[Item], server: Server, space: int | None) -> Answer:
    """Pack and send a batch, without the files that cannot be packed now. Raises: Offline, PushError."""
    with tempfile.TemporaryDirectory(prefix="convmemory-push-") as folder:
        archive = Path(folder) / "transcripts.zip"
        try:
            pack(batch, archive)
        except (OSError, sqlite3.Error) as error:
            return Answer(taken=False, detail=str(error), outcome="left")
        return send(archive, server=server, space=space)


_DO = {
    "push": _push,
    "connect": _connect,
    "disconnect": _disconnect,
    "mcp": _mcp,
    "hook": _hook,
    "search": _search,
    "read": _read,
}


if __name__ == "__main__":
    sys.exit(main())
