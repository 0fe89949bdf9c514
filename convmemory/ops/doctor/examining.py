"""Examines the whole installation, and repairs defects that can be repaired safely."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from django.db import DatabaseError
from redis.exceptions import RedisError

from convmemory.core.acting import schema_owner
from convmemory.core.errors import ConvMemoryError, DatabaseUnavailable
from convmemory.core.masking import masked
from convmemory.ops.doctor import (
    database_area,
    disk_area,
    indexes_area,
    models_area,
    queue_area,
    replicas_area,
    rows_area,
    settings_area,
)
from convmemory.ops.doctor.findings import Area, Check, Fact, Finding, Severity

AREAS = (
    settings_area.AREA,
    database_area.AREA,
    replicas_area.AREA,
    models_area.AREA,
    indexes_area.AREA,
    queue_area.AREA,
    rows_area.AREA,
    disk_area.AREA,
)

CANNOT_BE_EXAMINED = (ConvMemoryError, DatabaseError, OSError, RedisError)

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Report:
    """Facts by area, and the findings, worst first."""

    facts: dict[str, list[Fact]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """Return 0 for nothing to do, 1 for warnings, 2 for errors."""
        return int(max((finding.severity for finding in self.findings), default=Severity.NOTICE))


def examine(areas: Sequence[Area] = AREAS) -> Report:
    """Run all checks. A check that fails to run is a finding, and the others still run."""
    report = Report()
    for area in areas:
        report.facts[area.name] = [(name, masked(value)) for name, value in _facts(area)]
        for check in area.checks:
            report.findings += map(_shown, _checked(area, check))
            if any(finding.id == "database.unreachable" for finding in report.findings):
                return report
    report.findings.sort(key=lambda finding: -finding.severity)
    return report


def fix(report: Report) -> Iterator[str]:
    """Repair the findings that have a repair; yield what was done, or why it failed."""
    for finding in report.findings:
        if finding.fix is None:
            continue
        try:
            with schema_owner():  # some repairs change indexes
                done = finding.fix()
            yield f"{finding.id}: {done}"
        except CANNOT_BE_EXAMINED as error:
            yield f"{finding.id}: not fixed, {error}"


def _shown(finding: Finding) -> Finding:
    return replace(finding, message=masked(finding.message), remedy=masked(finding.remedy))


def _facts(area: Area) -> Iterator[Fact]:
    try:
        yield from area.facts()
    except CANNOT_BE_EXAMINED as error:
        yield "unknown", str(error).strip()


def _checked(area: Area, check: Check) -> list[Finding]:
    try:
        return list(check())
    except DatabaseUnavailable as error:
        remedy = "Start the database, or check DATABASE_URL."
        return [Finding("database.unreachable", Severity.ERROR, str(error), remedy)]
    except CANNOT_BE_EXAMINED as error:
        logger.debug("%s failed", check.__name__, exc_info=True)
        return [
            Finding(
                f"{area.name}.unknown",
                Severity.ERROR,
                f"{check.__name__.removeprefix('check_')} could not be examined: {str(error).strip()}",
                "Fix the other findings and run `manage.py doctor` again.",
            )
        ]
