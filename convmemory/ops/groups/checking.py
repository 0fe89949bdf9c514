"""What the doctor examines of owner groups."""

from collections.abc import Iterator

from convmemory.core.postgres import groups
from convmemory.core.program import COMMAND
from convmemory.ops.doctor.findings import Finding, Severity, plural
from convmemory.ops.groups.sizes import group_reports


def check_groups() -> Iterator[Finding]:
    """Yield the defects of groups of owners: a group that differs from the others, and owners without a group."""
    for report in group_reports():
        for problem in report.problems:
            yield Finding(
                "database.group",
                Severity.ERROR,
                f"Group {report.number}: {problem}.",
                f"`{COMMAND} migrate` makes up for what it can; `{COMMAND} groups` shows all of them.",
            )
    if groups.layout().groups and (homeless := groups.owners_without_group()):

        def place_all() -> str:
            for archive_id in homeless:
                groups.place_owner(archive_id)
            return f"{plural(len(homeless), 'account')} joined a group."

        yield Finding(
            "database.no-group",
            Severity.ERROR,
            f"{plural(len(homeless), 'account')} belong to no group of owners, so that nothing can be kept for them.",
            f"`{COMMAND} doctor --fix` adds each to the smallest group.",
            place_all,
        )
