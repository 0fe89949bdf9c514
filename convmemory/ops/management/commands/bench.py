"""`manage.py bench [NAME ...]`: measure the speeds that matter, on this machine, in this run."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from convmemory.ops.benchmarks import BENCHMARKS


class Command(BaseCommand):
    help = "Measure speeds on the database at hand. `make bench` runs it on a scratch database."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", help=f"any of: {', '.join(BENCHMARKS)} (default: all)")

    def handle(self, *args: Any, names: list[str], **options: Any) -> None:
        for name in names or BENCHMARKS:
            for figure in BENCHMARKS[name]():
                self.stdout.write(str(figure))
            self.stdout.flush()
