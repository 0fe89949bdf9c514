"""`manage.py export_user USER PATH`: write all data of a user to one zip archive."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from convmemory.accounts.users import user_named
from convmemory.core.commands import ArchiveCommand
from convmemory.ops.privacy.exporting import export_user


class Command(ArchiveCommand):
    help = "Write every row of a person into a zip archive, which import_conversations reads (docs/export-format.md)."
    usages = ("user path",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the user whose data is exported")
        parser.add_argument("path", type=Path, metavar="PATH", help="the zip file to write; it must not exist")

    def handle(self, *args: Any, user: str, path: Path, **options: Any) -> None:
        report = export_user(user=user_named(user), path=path)
        for name, count in report.rows.items():
            if count:
                self.stdout.write(f"{name:<40} {count:>10} rows")
        self.stdout.write(f"{path}: {sum(report.rows.values())} rows, {report.size / 1024**2:.1f} MB.")
