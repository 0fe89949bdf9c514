"""`convmemory-push push`: sends what the agents of this machine have written, after it was shown and agreed to once.

A folder that is named, and the session that a hook says has ended, are sent without a question.
"""

import argparse
import json
import os
import shlex
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from .account import Account
from .application import PROGRAM
from .hook import TURN_S, log
from .ledger import Ledger
from .packing import Ended, Item, batches, pack, unsent
from .projects import Unreadable
from .rules import Rules
from .sending import Answer, Offline, PushError, Server, send, space_to_write
from .stores import existing_stores, stores_within

OFFLINE_EXIT, ERROR_EXIT = 3, 2
SHOWN_FOLDERS = 30
ARRIVALS_FILE = "arrivals.json"


def push(options: argparse.Namespace) -> int:
    """Run the command: once, or again and again with `--every`."""
    while True:
        code = push_once(options)
        if not options.every or code == ERROR_EXIT:
            return code
        time.sleep(options.every)


def push_once(options: argparse.Namespace, *, is_offer: bool = False) -> int:
    """Send what may be sent and return the exit code. An offer is only about agents that were never agreed to."""
    if options.wait:
        time.sleep(TURN_S)
        options.wait.unlink(missing_ok=True)  # a turn that ends from here on is sent by its own hook
    counts: Counter[str] = Counter()
    try:
        code = _push_once(options, counts, is_offer=is_offer)
        outcome = next((name for name in ("refused", "left", "taken") if counts[name]), "nothing-new")
    except Offline as error:
        print(f"{error}. What is left is sent the next time.", file=sys.stderr)
        code, outcome = OFFLINE_EXIT, "offline"
    except PushError as error:
        print(error, file=sys.stderr)
        code, outcome = ERROR_EXIT, "error"
    if options.agent:
        _record_arrival(Account(options.home), options.agent, "sent" if outcome == "taken" else outcome)
    return code


def arrivals(account: Account) -> dict[str, dict[str, Any]]:
    """Return by agent the outcome of the last session that its hook sent, and when one was sent."""
    try:
        value = json.loads((account.state / ARRIVALS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _record_arrival(account: Account, slug: str, outcome: str) -> None:
    now, recorded = time.time(), arrivals(account)
    sent_at = now if outcome == "sent" else recorded.get(slug, {}).get("sent_at")
    recorded[slug] = {"at": now, "outcome": outcome, "sent_at": sent_at}
    path = account.state / ARRIVALS_FILE
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f"{path.name}.{os.getpid()}")  # another agent's hook may write at the same time
    part.write_text(json.dumps(recorded), encoding="utf-8")
    part.replace(path)
    log(account, "push", slug, outcome, 0.0)


def _push_once(options: argparse.Namespace, counts: Counter[str], *, is_offer: bool) -> int:
    account = Account(options.home)
    rules = Rules.of(account)
    if rules.stop and not options.list:
        print(f"Nothing is sent: {rules.stop}.")
        return 0
    if options.folder and not options.folder.is_dir():
        raise PushError(f"There is no folder {options.folder}.")
    home = options.home
    stores = stores_within(options.folder, home=home) if options.folder else existing_stores(home=home)
    if is_offer and not any(next(store.files(), None) for store in stores):
        return 0
    needs_key = options.space or not options.list
    server = Server(options.server or account.address(), (options.key or account.key()) if needs_key else "")
    state: Path = options.state or home / ".local" / "state" / "convmemory-push" / "ledger.db"
    ended = Ended(options.session, options.transcript) if options.session or options.transcript else None
    with Ledger(state) as ledger:
        space = space_to_write(server, options.space) if options.space else None
        # What was sent to a space is recorded apart from what was sent to the owner's archive.
        target = server.address if space is None else f"{server.address} space {space}"
        left_out: Counter[str] = Counter()
        waiting = list(unsent(stores, server=target, ledger=ledger, rules=rules, left_out=left_out, ended=ended))
        if options.list:
            print(f"{in_words(len(waiting))} to send")
            for item in waiting:
                print(f"  {item.path}")
            _show_left_out(left_out)
            return 0
        if options.folder is None and ended is None:
            agreed = ledger.agreed(target)
            new = [item for item in waiting if item.store.agent not in agreed]
            if is_offer and not new:
                return 0
            if new and not _agree(new, left_out, target, is_told=options.yes):
                program = shlex.quote(str(account.program)) if account.program.exists() else PROGRAM
                later = f"`{program} push` in a terminal shows the list and asks; `--yes` agrees to it."
                if is_offer or not agreed:
                    print(f"Nothing was sent. {later}", file=sys.stdout if is_offer else sys.stderr)
                    return 0 if is_offer else ERROR_EXIT
                print(f"Of agents that were not agreed to, nothing is sent. {later}", file=sys.stderr)
                waiting = [item for item in waiting if item.store.agent in agreed]
            else:
                ledger.record_agreement(target, {item.store.agent for item in new})
        print(f"{in_words(len(waiting))} to send")
        counts.update(_send_all(waiting, server, space, ledger, target, home=home))
        print(f"{in_words(counts['taken'])} sent, {counts['refused']} refused, {counts['left']} left for the next time")
        return 0


def _agree(items: Collection[Item], left_out: Counter[str], target: str, *, is_told: bool) -> bool:
    """Show the files by agent and folder, and return whether the user agrees to send them."""
    folders = Counter(
        (item.store.agent, item.folders[0] if len(item.folders) == 1 else "(no folder is named)") for item in items
    )
    print(f"On this machine are sessions that were not sent to {target}:")
    for (agent, folder), count in folders.most_common(SHOWN_FOLDERS):
        print(f"  {agent:<16}{in_words(count):>12}  {folder}")
    if len(folders) > SHOWN_FOLDERS:
        rest = sum(count for _, count in folders.most_common()[SHOWN_FOLDERS:])
        print(f"  {in_words(rest)} of other folders")
    _show_left_out(left_out)
    if is_told:
        return True
    if not sys.stdin.isatty():
        return False
    try:
        return input("Send them, and later ones of these agents? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def in_words(count: int) -> str:
    """Return a number of files in words."""
    return f"{count} file{'s' * (count != 1)}"


def _show_left_out(left_out: Counter[str]) -> None:
    for reason, count in left_out.most_common():
        print(f"  {in_words(count)} left out: {reason}")


def _send_all(
    waiting: Sequence[Item], server: Server, space: int | None, ledger: Ledger, target: str, *, home: Path
) -> Counter[str]:
    """Send the files in batches and record those that the server has or refuses; return their counts."""
    counts: Counter[str] = Counter()
    todo = list(batches(waiting))[::-1]
    while todo:
        batch = todo.pop()
        answer = _send_batch(batch, server, space, home)
        if not answer.taken and len(batch) > 1:
            half = len(batch) // 2  # halves isolate the file that fails
            todo += [batch[half:], batch[:half]]
            continue
        counts[answer.outcome] += len(batch)
        if answer.outcome != "left":
            ledger.record_sent(target, (item.digest for item in batch), outcome=answer.detail or "taken")
        if not answer.taken:
            print(f"{batch[0].path}: {answer.detail}", file=sys.stderr)
    return counts


def _send_batch(batch: list[Item], server: Server, space: int | None, home: Path) -> Answer:
    """Pack and send a batch, without the files that cannot be packed now. Raises: Offline, PushError."""
    with tempfile.TemporaryDirectory(prefix="convmemory-push-") as folder:
        archive = Path(folder) / "transcripts.zip"
        try:
            pack(batch, archive, home=home)
        except (OSError, sqlite3.Error, Unreadable) as error:
            return Answer(taken=False, detail=str(error), outcome="left")
        return send(archive, server=server, space=space)
