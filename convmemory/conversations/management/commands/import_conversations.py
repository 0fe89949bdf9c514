"""`manage.py import_conversations PATH... --user U`: import transcripts of coding agents and chats.

Progress goes to standard error, the report to standard output.
"""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from convmemory.accounts.callers import MINE, Caller, acting_as, refuse_readers
from convmemory.accounts.users import user_named
from convmemory.conversations.importers.declared import DeclaredImporter
from convmemory.conversations.importers.detect import AUTO, FORMATS
from convmemory.conversations.importers.mapping import (
    as_json,
    importer_of,
    preview,
    proposed_mapping,
    read_mapping,
)
from convmemory.conversations.importing.runner import ImportReport, import_paths
from convmemory.conversations.importing.syncing import import_undoably
from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import InvalidInput

QUIET_FILES = 100
SHOWN_TYPES = 10
COLUMNS = ("conversations", "messages", "added", "updated", "unchanged", "turns", "skipped")
TITLES = ("conv.", "messages", "new", "updated", "same", "turns", "skipped")


class Command(ArchiveCommand):
    help = "Import conversations from the transcripts of coding agents and chat services."
    usages = ("paths --user [--space] [--format | --map] [--json]", "paths --user [--map] --preview")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", metavar="PATH", type=Path, help="a file, or a folder to search")
        parser.add_argument("--user", required=True, help="the user who will own the conversations")
        parser.add_argument("--space", default="", help="the name or number of a space of the user to import into")
        parser.add_argument("--format", default=AUTO, choices=FORMATS, help="default: detected for each file")
        parser.add_argument(
            "--map", type=Path, dest="map_file", metavar="FILE", help="read every file by the mapping in FILE"
        )
        parser.add_argument(
            "--preview",
            action="store_true",
            help="store nothing: show what the mapping finds, or propose one for a JSON file of an unknown program",
        )
        parser.add_argument("--json", action="store_true", dest="as_json", help="print the report as one JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        caller = Caller.of(user_named(options["user"]))
        importer = read_mapping(options["map_file"]) if options["map_file"] else None
        if options["preview"]:
            self._preview(options["paths"], importer)
            return
        with acting_as(caller):
            (access,) = caller.chosen(options["space"] or MINE)
        refuse_readers(access)
        self._reported_files = 0
        with acting_as(caller.at(access)) as caller:
            report = import_undoably(
                caller=caller,
                name=", ".join(path.name or str(path) for path in options["paths"]),
                format=options["format"],
                run=lambda on_stored: import_paths(
                    caller=caller,
                    paths=options["paths"],
                    format=options["format"],
                    progress=self._show_progress,
                    on_stored=on_stored,
                    importer=importer,
                ),
            )
        if sys.stderr.isatty():
            self.stderr.write("\r\033[K", ending="")
        if options["as_json"]:
            self.stdout.write(json.dumps(report.to_json(), indent=1, ensure_ascii=False))
        else:
            self._print(report)
        if not report.recognised:
            raise CommandError("Nothing was imported: no path holds a transcript that can be read.", returncode=1)
        if failed := sum(file.is_refused or bool(file.errors) for file in report.files):
            raise CommandError(f"{failed} of {len(report.files)} files were refused, wholly or in part.", returncode=1)

    def _preview(self, paths: list[Path], importer: DeclaredImporter | None) -> None:
        """Print what is in the files by the mapping, or a mapping for each."""
        for path in paths:
            if not path.is_file():
                raise InvalidInput(f"{path} is no file: a preview is made of single files.")
            mapping = None if importer else proposed_mapping(path)
            if importer is None and mapping is None:
                raise InvalidInput(f"No messages were found in {path.name}: no list of objects with speaker and text.")
            self.stdout.write(f"{path}: {preview(importer or importer_of(mapping or {}), path)}")
            if mapping is not None:
                self.stdout.write(as_json(mapping))
                self.stdout.write("Keep this as FILE, change what is wrong, and import with --map FILE.")

    def _show_progress(self, report: ImportReport) -> None:
        files = len(report.files)
        line = f"{files} files, {report.messages_read} messages"
        if sys.stderr.isatty():
            self.stderr.write(f"\r\033[K{line}", ending="")
        elif files >= self._reported_files + QUIET_FILES:
            self._reported_files = files
            self.stderr.write(line)

    def _print(self, report: ImportReport) -> None:
        width = min(70, max((len(file.path) for file in report.files), default=4))
        self.stdout.write(_row("file", "format", TITLES, width))
        for file in report.files:
            self.stdout.write(_row(file.path, file.format or "-", [getattr(file, name) for name in COLUMNS], width))
            if file.is_refused:
                self.stdout.write("    refused")
            # The lines about a file besides its counts.
            lines = [f"error: {error}" for error in file.errors]
            lines += [f"WARNING: {warning}" for warning in file.warnings] + [f"note: {note}" for note in file.notes]
            lines += [
                f"{'repaired' if issue.kept else 'skipped'} {issue.place}: {issue.reason}" for issue in file.issues
            ]
            hidden = file.skipped + file.repaired - len(file.issues)
            if hidden > 0:
                lines.append(f"and {hidden} more")
            if file.hidden_keys:
                lines.append(
                    f"{file.hidden_keys} keys, tokens or passwords were hidden: their pages can show them to you"
                )
            if file.unknown_types:
                counted = ", ".join(
                    f"{kind} ({count})" for kind, count in list(file.unknown_types.items())[:SHOWN_TYPES]
                )
                lines.append(f"unknown types passed over: {counted}")
            for line in lines:
                self.stdout.write(f"    {line}")
        totals = [report.total(name) for name in COLUMNS]
        self.stdout.write(_row("total", "", totals, width))
        imported = sum(file.conversations > 0 for file in report.files)
        empty = sum(not file.conversations and not file.is_refused for file in report.files)
        self.stdout.write(
            f"{imported} of {len(report.files)} files imported{f', {empty} without a conversation' if empty else ''}: "
            f"{totals[0]} conversations, {totals[2]} messages new, {totals[3]} updated, {totals[4]} unchanged, "
            f"{totals[5]} turns, {totals[6]} lines skipped."
        )
        if passed_over := report.total("passed_over"):
            incomplete = sum(bool(file.passed_over) for file in report.files)
            self.stdout.write(
                f"NOT ALL WAS READ: {passed_over} entries in {incomplete} files were passed over or are of unknown "
                "types; their kinds and places are above."
            )
        if report.ignored:
            self.stdout.write(
                f"{report.ignored_files} other files in the folders hold no transcript: {report.ignored_by_ending}."
            )


def _row(path: str, format: str, cells: Any, width: int) -> str:
    shown = path if len(path) <= width else f"…{path[1 - width :]}"
    return f"{shown:<{width}}  {format:<11}" + "".join(f"{cell:>10}" for cell in cells)
