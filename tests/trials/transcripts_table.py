"""Imports every file of a folder of transcripts and prints a table of what came in, and what did not and why.

`python -m tests.trials.transcripts_table FOLDER`. Then again, which must bring nothing new, and for a second person in
two steps, files of JSON lines first cut in half, which must end in the same rows. Uses the database of the settings;
the persons that it makes are erased at the end.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import django

from convmemory.accounts.callers import Caller
from convmemory.core import acting

LINES = (".jsonl", ".ndjson")
COLUMNS = ("conversations", "messages", "turns", "superseded", "events", "hidden_keys", "skipped")
FIELDS = ("conversation__source", "conversation__source_id", "position", "role", "is_real_user", "superseded", "name",
          "model", "parts", "turn_number", "source_key", "created_at")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "convmemory.settings")
    django.setup()
    acting.process_acts_as(acting.SCHEMA)
    from django.contrib.auth.models import User

    for name in ("table-whole", "table-halves"):
        User.objects.filter(username=name).delete()
    whole, halves = (User.objects.create_user(name) for name in ("table-whole", "table-halves"))
    try:
        sys.exit(_run(folder, whole, halves))
    finally:
        whole.delete()
        halves.delete()


def _run(folder: Path, whole: Any, halves: Any) -> int:
    from convmemory.conversations.importing.runner import import_paths

    report = import_paths(caller=Caller.of(whole), paths=[folder], root=folder)
    _print_table(report)
    again = import_paths(caller=Caller.of(whole), paths=[folder], root=folder)
    print(f"\nAgain: {again.total('added')} messages new, {again.total('updated')} updated.")
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / folder.name
        _copy_cut(folder, copy)
        first = import_paths(caller=Caller.of(halves), paths=[copy], root=copy)
        shutil.rmtree(copy)
        shutil.copytree(folder, copy)
        second = import_paths(caller=Caller.of(halves), paths=[copy], root=copy)
    expected, found = _rows(Caller.of(whole)), _rows(Caller.of(halves))
    differ = {key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)}
    print(f"In two halves: {first.total('added')} messages, then {second.total('added')} more; "
          f"{len(differ)} of {len(expected)} conversations read otherwise than whole.")  # fmt: skip
    for key in sorted(differ):
        print(f"  {key}: {len(expected.get(key, ()))} messages whole, {len(found.get(key, ()))} in halves")
    return int(bool(again.total("added") or again.total("updated") or differ))


def _print_table(report: Any) -> None:
    print("| file | format | " + " | ".join(COLUMNS) + " | remarks |")
    print("|---|---|" + "---:|" * len(COLUMNS) + "---|")
    for file in sorted(report.files, key=lambda file: file.path):
        reasons: dict[str, int] = {}
        for issue in file.issues:
            reasons[issue.reason] = reasons.get(issue.reason, 0) + 1
        remarks = [*file.errors, *file.warnings, *file.notes, *(f"{n} x {reason}" for reason, n in reasons.items())]
        shown = "; ".join(remarks).replace("|", "\\|")
        counts = " | ".join(str(getattr(file, name)) for name in COLUMNS)
        print(f"| {file.path} | {file.format or 'refused'} | {counts} | {shown} |")
    totals = " | ".join(str(report.total(name)) for name in COLUMNS)
    print(f"| {len(report.files)} files | {report.recognised} read, {report.refused} refused | {totals} | "
          f"{report.ignored_files} other files |")  # fmt: skip


def _copy_cut(folder: Path, copy: Path) -> None:
    """The folder with the files of JSON lines cut at half of their lines."""
    shutil.copytree(folder, copy)
    for path in copy.rglob("*"):
        if path.is_dir():
            path.chmod(0o700)
        elif path.suffix in LINES:
            lines, status = path.read_bytes().splitlines(keepends=True), path.stat()
            path.chmod(0o600)
            path.write_bytes(b"".join(lines[: (len(lines) + 1) // 2]))
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # the date of what has none


def _rows(owner: Any) -> dict[str, list[str]]:
    from convmemory.conversations.models import Message

    found: dict[str, list[str]] = {}
    rows = Message.objects.filter(archive_id=owner.pk).order_by(
        "conversation__source", "conversation__source_id", "position"
    )
    for row in rows.values_list(*FIELDS).iterator():
        found.setdefault(f"{row[0]}:{row[1]}", []).append(json.dumps(row[2:], default=str))
    return found


if __name__ == "__main__":
    main()
