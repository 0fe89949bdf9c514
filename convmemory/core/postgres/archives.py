"""Work that looks through all archives: once on one server, once in each owner group of a cluster.

What starts such work calls this, so that the work itself knows no groups. Reasons:
docs/adr/0072-owner-group-per-citus-node.md.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

from convmemory.core import acting
from convmemory.core.postgres.groups import layout

T = TypeVar("T")


def for_all_archives(work: Callable[[], T]) -> Iterator[T]:
    """Call `work` once on one server, and once in each group of a cluster; work that is in a group stays there."""
    who = acting.current()
    is_in_one = who.group is not None or who.archive_id is not None
    for number in () if is_in_one else layout().groups:
        with acting.in_group(number):
            result = work()
        yield result
    if is_in_one or not layout().groups:
        yield work()


def over_all_archives(task: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Decorate a scheduled task that looks through all archives and returns figures, which are added up."""

    @wraps(task)
    def run() -> dict[str, Any]:
        figures: Counter[str] = Counter()
        for done in for_all_archives(task):
            figures.update(done)
        return dict(figures)

    return run
