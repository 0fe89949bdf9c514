"""The reports of the doctor: facts, and findings with a remedy each.

An area is a module of this package: its facts are shown, its checks yield findings. A check only reads; a finding that
can be repaired without loss has a `fix`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum


class Severity(IntEnum):
    """The severity of a finding; the exit code is that of the worst one. A notice requires no prompt action."""

    NOTICE = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect. `id` is `area.defect` and stays the same between versions.

    `fix` repairs it and returns a report; it is idempotent.
    """

    id: str
    severity: Severity
    message: str
    remedy: str
    fix: Callable[[], str] | None = field(default=None, repr=False, compare=False)


Fact = tuple[str, str]
Check = Callable[[], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Area:
    """A part of the installation that is examined separately.

    With `by_archives`, the checks look at rows of owners and their tables: they run once in each group of a cluster.
    """

    name: str
    facts: Callable[[], Iterator[Fact]]
    checks: Sequence[Check]
    by_archives: bool = False


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 row`, `2 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
