"""`manage.py export_conversations FILE --user U --format markdown`: export conversations to one file, keys masked."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from convmemory.accounts.callers import MINE, Caller, acting_as
from convmemory.accounts.users import archive_named
from convmemory.conversations.exports.formats import FORMATS, exported, record_export, require_format
from convmemory.conversations.exports.selection import ExportSelection
from convmemory.conversations.filters import FILTER_USAGE, add_filter_arguments, filters_of
from convmemory.core.commands import ArchiveCommand
from convmemory.core.files.private_files import drop_drafts_of, written_whole


class Command(ArchiveCommand):
    help = "Write conversations to one file: Markdown, JSON that can be imported again, or one HTML page."
    usages = (
        "file --user [--space] [--format] --conversation",
        f"file --user [--space] [--format] {FILTER_USAGE}",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the file to write; it must not exist")
        parser.add_argument("--user", required=True, help='whose conversations, or "space 7"')
        parser.add_argument("--space", default="", help="those of a space of the user, by name or number")
        parser.add_argument("--format", default="markdown", choices=tuple(FORMATS), help="default: markdown")
        parser.add_argument(
            "--conversation", type=int, action="append", default=[], help="the id of a conversation; can be repeated"
        )
        add_filter_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        archive, path = archive_named(options["user"]), options["file"]
        caller = Caller.of(archive.person) if archive.person else Caller.for_archive(archive.pk)
        if path.exists():
            raise CommandError(f"{path} exists already: name another file.")
        if not path.parent.is_dir():
            raise CommandError(f"{path} cannot be written: there is no folder {path.parent}.")
        try:
            drop_drafts_of(path)
            selection = ExportSelection(ids=tuple(options["conversation"]), filters=filters_of(options))
            with acting_as(caller):
                (access,) = caller.chosen(options["space"] or MINE)
            with written_whole(path) as file, acting_as(caller.at(access)) as caller:
                for piece in exported(caller=caller, selection=selection, format=require_format(options["format"])):
                    file.write(piece.encode("utf-8", "replace"))
                record_export(caller=caller, selection=selection)
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror or error}.") from error
        self.stdout.write(f"Wrote {path}.")
