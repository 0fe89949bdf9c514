"""`manage.py bench [NAME ...]`: measure the speeds that matter on this machine."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from benchmarks.speeds.bench import BENCHMARKS
from benchmarks.speeds.documents import bench_documents
from benchmarks.speeds.row_security import ROUNDS, UP_TO, bench_row_security
from benchmarks.speeds.scale import bench_scale
from convmemory.core.commands import ArchiveCommand

NAMES = [*BENCHMARKS, "documents", "scale", "row-security"]


class Command(ArchiveCommand):
    help = "Measure speeds on the database at hand. `make bench` runs it on a scratch database."
    usages = (
        "[names]",
        "[--passages] [--up-to] [--rounds]",
        "scale [--passages]",
        "row-security [--up-to] [--rounds]",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", choices=[*NAMES, []], help=f"any of: {', '.join(NAMES)} (default: all)")
        parser.add_argument("--passages", type=int, default=100_000, help="how many passages `scale` makes")
        parser.add_argument(
            "--up-to", type=int, default=UP_TO, help="the passages of the largest owner of `row-security`, up to 500000"
        )
        parser.add_argument("--rounds", type=int, default=ROUNDS, help="how many questions `row-security` asks of each")

    def handle(self, *args: Any, names: list[str], passages: int, **options: Any) -> None:
        row_security = partial(bench_row_security, **{name: options[name] for name in ("up_to", "rounds")})
        runs = BENCHMARKS | {
            "documents": bench_documents,
            "scale": partial(bench_scale, passages),
            "row-security": row_security,
        }
        for name in names or NAMES:
            for figure in runs[name]():
                self.stdout.write(str(figure))
            self.stdout.flush()
