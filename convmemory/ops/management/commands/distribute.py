"""`manage.py distribute --groups N`: distribute the owners of this database over the nodes of a Citus cluster."""

from argparse import ArgumentParser
from typing import Any

from convmemory.core.commands import ArchiveCommand
from convmemory.ops.groups.distributing import distribute


class Command(ArchiveCommand):
    help = (
        "Spread all owners over N groups, each on a node of a Citus cluster, or add empty groups up to N. Stop "
        "everything else first and make a backup: nothing can be written meanwhile, and it needs as much room again as "
        "the tables take. Killed halfway, run it again. There is no way back to one server but a backup "
        "(docs/adr/0072-owner-group-per-citus-node.md)."
    )
    usages = ("--groups",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--groups", type=int, required=True, metavar="N", help="how many groups there shall be")

    def handle(self, *args: Any, groups: int, **options: Any) -> None:
        done = distribute(groups=groups, tell=self.stdout.write)
        self.stdout.write(
            f"{len(done.owners)} groups are made, {sum(done.owners.values())} owners, {done.rows:,} rows."
        )
