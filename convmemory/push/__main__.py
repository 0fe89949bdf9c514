"""`convmemory-push --server URL`: send what the coding agents of this machine have written since the last time.

The key is in CONVMEMORY_KEY, or in the file that CONVMEMORY_KEY_FILE names. With `--every` it continues until Ctrl-C.
"""

import argparse
import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from .ledger import Ledger
from .packing import Item, batches, pack, unsent
from .places import existing_places
from .sending import Answer, Offline, PushError, Server, send

OFFLINE_EXIT, ERROR_EXIT = 3, 2


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    0: everything was sent; 3: the server does not answer; 2: a person has to act.
    """
    options = _parser().parse_args(arguments)
    while True:
        code = _run(options)
        if not options.every or code == ERROR_EXIT:
            return code
        time.sleep(options.every)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="convmemory-push", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default=os.environ.get("CONVMEMORY_SERVER", ""), help="or CONVMEMORY_SERVER")
    parser.add_argument(
        "--home", type=Path, default=Path.home(), help="home folder of the agents' user (default: your own)"
    )
    parser.add_argument("--state", type=Path, help="folder for the record of what was sent")
    parser.add_argument("--every", type=float, default=0, metavar="SECONDS", help="repeat at this interval")
    parser.add_argument("--list", action="store_true", help="only list what would be sent")
    return parser


def _run(options: argparse.Namespace) -> int:
    state: Path = options.state or options.home / ".local" / "state" / "convmemory-push" / "ledger.db"
    try:
        server = Server(options.server, "" if options.list else _key())
        with Ledger(state) as ledger:
            waiting = list(unsent(existing_places(home=options.home), server=server.address, ledger=ledger))
            print(f"{len(waiting)} files to send")
            if options.list:
                for item in waiting:
                    print(f"  {item.path}")
                return 0
            return _send_all(waiting, server, ledger)
    except Offline as error:
        print(f"{error}. What is left is sent the next time.", file=sys.stderr)
        return OFFLINE_EXIT
    except PushError as error:
        print(error, file=sys.stderr)
        return ERROR_EXIT


def _send_all(waiting: list[Item], server: Server, ledger: Ledger) -> int:
    counts = {"taken": 0, "refused": 0, "left": 0}
    todo = list(batches(waiting))[::-1]
    while todo:
        batch = todo.pop()
        answer = _send_batch(batch, server)
        if not answer.taken and len(batch) > 1:
            half = len(batch) // 2  # halves isolate the file that fails
            todo += [batch[half:], batch[:half]]
            continue
        counts[answer.outcome] += len(batch)
        if answer.outcome != "left":
            ledger.record_sent(server.address, (item.digest for item in batch), outcome=answer.detail or "taken")
        if not answer.taken:
            print(f"{batch[0].path}: {answer.detail}", file=sys.stderr)
    print(f"{counts['taken']} files sent, {counts['refused']} refused, {counts['left']} left for the next time")
    return 0


def _send_batch(batch: list[Item], server: Server) -> Answer:
    """Pack and send a batch, without the files that cannot be packed now. Raises: Offline, PushError."""
    with tempfile.TemporaryDirectory(prefix="convmemory-push-") as folder:
        archive = Path(folder) / "transcripts.zip"
        try:
            pack(batch, archive)
        except (OSError, sqlite3.Error) as error:
            return Answer(taken=False, detail=str(error), outcome="left")
        return send(archive, server=server)


def _key() -> str:
    """Return the key. Raises: PushError if there is none."""
    path = os.environ.get("CONVMEMORY_KEY_FILE")
    try:
        key = Path(path).read_text(encoding="utf-8").strip() if path else os.environ.get("CONVMEMORY_KEY", "")
    except OSError as error:
        raise PushError(f"The key cannot be read from {path}: {error.strerror}") from error
    if not key:
        raise PushError("There is no key: set CONVMEMORY_KEY, or CONVMEMORY_KEY_FILE to a file that holds one.")
    return key


if __name__ == "__main__":
    sys.exit(main())
