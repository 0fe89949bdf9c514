"""Examines the whole installation: here its disk, settings and queue; repairs what can be repaired safely."""

import logging
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path

from django.db import DatabaseError, connection
from django.db.models import Count
from django.utils import timezone
from django_q.models import Failure, Schedule

from convmemory.core import acting, conf
from convmemory.core.acting import schema_owner
from convmemory.core.config import config
from convmemory.core.encryption import key_fingerprint
from convmemory.core.errors import ConvMemoryError, DatabaseUnavailable
from convmemory.core.postgres.archives import for_all_archives
from convmemory.core.processes.confinement import missing_parts
from convmemory.core.program import COMMAND
from convmemory.core.queue.fair_queue import tasks_in_work, waiting_tasks
from convmemory.core.text import masked
from convmemory.ops.doctor import database_area, models_area, rows_area
from convmemory.ops.doctor.findings import Area, Check, Fact, Finding, Severity, plural
from convmemory.ops.models import KeyFingerprint, RestoreCheck, SweepRun
from convmemory.ops.observability.measures import oldest_arrival
from convmemory.ops.privacy.backup_places import place_named
from convmemory.ops.privacy.scheduled_backups import newest_backup
from convmemory.ops.runtime import schedules
from convmemory.ops.runtime.instance import remember_key

GIB = 1024**3
# An index build and a reembed need room in addition to the existing data.
SHORT_BYTES = 5 * GIB
FULL_BYTES = 1 * GIB
RESTORE_CHECK_EVERY = timedelta(days=90)


def disk_facts() -> Iterator[Fact]:
    usage = shutil.disk_usage(_folder())
    yield str(_folder()), f"{usage.free / GIB:.1f} GiB free of {usage.total / GIB:.1f}"
    for check in RestoreCheck.objects.all():
        yield "last restore check", f"{check.checked_at:%Y-%m-%d %H:%M} UTC"


def check_free_space() -> Iterator[Finding]:
    free = shutil.disk_usage(_folder()).free
    if free < SHORT_BYTES:
        yield Finding(
            "disk.short",
            Severity.ERROR if free < FULL_BYTES else Severity.WARNING,
            f"{free / GIB:.1f} GiB are free where {_folder()} lies; PostgreSQL stops when there are none.",
            f"Free some space, run `{COMMAND} reembed --prune`, or move the folder (CONVMEMORY_VAR, DATABASE_URL).",
        )


def check_backups() -> Iterator[Finding]:
    """Report that the newest backup in BACKUP_FOLDER is older than two intervals: one may still be written."""
    if not config.backup_folder:
        return
    if not connection.settings_dict.get("EMBEDDED_PATH"):
        yield Finding(
            "disk.backups",
            Severity.ERROR,
            "BACKUP_FOLDER has no effect, because DATABASE_URL names a server of your own: nothing is backed up.",
            "Back the server up with its own pg_dump and MEDIA_ROOT with it, and unset BACKUP_FOLDER.",
        )
        return
    newest = newest_backup(place_named(config.backup_folder))
    if newest is None or time.time() - newest > 2 * config.backup_every_h * 3_600:
        age = "no backup" if newest is None else f"no backup of the last {2 * config.backup_every_h} hours"
        yield Finding(
            "disk.backups",
            Severity.ERROR,
            f"{config.backup_folder} (BACKUP_FOLDER) contains {age}.",
            f"Look for 'No backup' in the output of `{COMMAND} up`, or run "
            f"`{COMMAND} backup --to {config.backup_folder}`, which reports what is wrong.",
        )


def check_restores() -> Iterator[Finding]:
    """Report that no backup in BACKUP_FOLDER was restored on trial for a while."""
    if not config.backup_folder or not connection.settings_dict.get("EMBEDDED_PATH"):
        return
    if not RestoreCheck.objects.filter(checked_at__gt=timezone.now() - RESTORE_CHECK_EVERY).exists():
        yield Finding(
            "disk.restore-check",
            Severity.NOTICE,
            f"No backup was restored, in earnest or on trial, within {RESTORE_CHECK_EVERY.days} days.",
            f"Run `{COMMAND} restore FILE --check` with the newest one: it replaces nothing, and needs as much room "
            "as the database.",
        )


def _folder() -> Path:
    return Path(config.var_dir)


DISK = Area("disk", disk_facts, (check_free_space, check_backups, check_restores, rows_area.check_files))

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


def settings_facts() -> Iterator[Fact]:
    yield from sorted(conf.IN_FORCE.items())


def check_debug() -> Iterator[Finding]:
    if config.debug and _is_public():
        yield Finding(
            "settings.debug",
            Severity.ERROR,
            "DEBUG is on and the server answers under names that others can reach: errors show code and settings.",
            "Unset DEBUG and start the server again.",
        )


def check_https() -> Iterator[Finding]:
    if _is_public() and not config.https_only:
        yield Finding(
            "settings.plain-http",
            Severity.WARNING,
            "The server answers under names that others can reach, and its cookies also travel without encryption.",
            "Put a proxy with HTTPS in front of it and set HTTPS_ONLY=1.",
        )


def check_secret_file() -> Iterator[Finding]:
    path = Path(config.var_dir) / "secret_key"
    if not path.is_file() or not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return

    def close() -> str:
        path.chmod(0o600)
        return f"Only its owner can read {path} now."

    yield Finding(
        "settings.secret-readable",
        Severity.ERROR,
        f"Other users of this machine can read the signing key {path}: they could sign in as any user.",
        f"Run `chmod 600 {path}`; if others may have read it, delete it, which signs everybody out.",
        close,
    )


def check_key() -> Iterator[Finding]:
    """Report that the database was used with another SECRET_KEY, as the worker that first ran on it has recorded."""
    fingerprints = KeyFingerprint.objects.values_list("fingerprint", flat=True)
    if not fingerprints or key_fingerprint() in fingerprints:
        return

    def accept() -> str:
        KeyFingerprint.objects.all().delete()
        remember_key()
        return "The key of this process is now the one of this database."

    yield Finding(
        "settings.other-key",
        Severity.ERROR,
        "SECRET_KEY is not the one that this database was used with: stored keys of endpoints, kept uploads and "
        "authenticator apps cannot be read, and links that were sent do not work.",
        f"Set the earlier SECRET_KEY, on all machines. If you have changed it on purpose, `{COMMAND} doctor --fix` "
        "accepts the new one; keys of endpoints have to be entered and authenticator apps set up again.",
        accept,
    )


def check_confinement() -> Iterator[Finding]:
    if missing := missing_parts():
        yield Finding(
            "settings.unconfined",
            Severity.WARNING,
            "The kernel cannot fully confine the processes that read uploads, documents and databases: a hostile "
            f"file that takes one over could {', '.join(missing)}.",
            "Run the server on a newer kernel, or as a user or in a container that can reach nothing else.",
        )


def check_folder() -> Iterator[Finding]:
    folder = Path(config.var_dir)
    if not folder.stat().st_mode & (stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH):
        return

    def close() -> str:
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) & ~(stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH))
        return f"Only its owner can list {folder} now."

    yield Finding(
        "settings.folder-readable",
        Severity.WARNING,
        f"Other users of this machine can list the data folder {folder}.",
        f"Run `chmod go-rw {folder}`.",
        close,
    )


def _is_public() -> bool:
    return not LOCAL_HOSTS.issuperset(config.allowed_hosts)


SETTINGS = Area(
    "settings",
    settings_facts,
    (check_debug, check_https, check_secret_file, check_key, check_confinement, check_folder),
)

# The sweep runs every minute if a worker lives anywhere.
OVERDUE = timedelta(minutes=5)
WAITING = timedelta(minutes=15)
RECENT = timedelta(days=1)


def queue_facts() -> Iterator[Fact]:
    waiting, in_work = waiting_tasks(), tasks_in_work()
    yield "queue", f"{plural(waiting.count(), 'task')} waiting, {in_work.count()} in work"
    waiting, in_work = waiting.exclude(archive=None), in_work.exclude(archive=None)
    people = waiting.values("archive").distinct().count()
    of_people = f"{plural(waiting.count(), 'task')} of {plural(people, 'user')} waiting"
    yield "queue by owner", f"{of_people}, {in_work.count()} in work"
    last = SweepRun.objects.order_by("-started_at").first()
    yield "last sweep", f"{last.started_at:%Y-%m-%d %H:%M:%S}, found {last.found}" if last else "never"


def check_schedules() -> Iterator[Finding]:
    present = set(Schedule.objects.values_list("name", flat=True))
    missing = [name for name in schedules.SCHEDULES if name not in present]
    if not missing:
        return

    def make() -> str:
        schedules.ensure_schedules()
        return f"{', '.join(missing)}: scheduled."

    yield Finding(
        "queue.schedule-missing",
        Severity.ERROR,
        f"Not scheduled: {', '.join(missing)}. Work that is missed stays undone.",
        f"Start `{COMMAND} up` or `{COMMAND} worker` once, which schedules them.",
        make,
    )


def check_workers() -> Iterator[Finding]:
    last = SweepRun.objects.order_by("-started_at").values_list("started_at", flat=True).first()
    if last and last >= timezone.now() - OVERDUE:
        return
    if not Schedule.objects.filter(next_run__lt=timezone.now() - OVERDUE).exists():
        return  # just installed
    yield Finding(
        "queue.no-worker",
        Severity.ERROR,
        f"No worker is running: the sweep, which runs every minute, last ran {_ago(last)}.",
        f"Start `{COMMAND} up`, or `{COMMAND} worker` on a machine that does background work, and read its output.",
    )


def check_waiting() -> Iterator[Finding]:
    if (arrived := oldest_arrival()) and arrived < timezone.now() - WAITING:
        yield Finding(
            "queue.waiting",
            Severity.WARNING,
            f"The oldest task of {plural(waiting_tasks().count(), 'task')} has been waiting since {_ago(arrived)}.",
            "Check that workers are running (queue.no-worker); after a large import just wait, or raise WORKERS.",
        )


def check_failures() -> Iterator[Finding]:
    failures = Failure.objects.filter(stopped__gte=timezone.now() - RECENT)
    by_function = failures.values_list("func").annotate(count=Count("pk")).order_by("-count")
    for function, count in by_function:
        yield Finding(
            "queue.failures",
            Severity.WARNING,
            f"{plural(count, 'task')} {function} failed within a day.",
            "The worker's log and the failed tasks in the admin say why; the sweep retries what can be retried.",
        )


def _ago(moment: datetime | None) -> str:
    if moment is None:
        return "never"
    minutes = int((timezone.now() - moment).total_seconds() // 60)
    return f"{plural(minutes, 'minute')} ago" if minutes < 120 else f"{plural(minutes // 60, 'hour')} ago"


QUEUE = Area(
    "queue",
    queue_facts,
    (check_schedules, check_workers, check_waiting, check_failures),
)


AREAS = (
    SETTINGS,
    database_area.DATABASE,
    models_area.AREA,
    database_area.INDEXES,
    QUEUE,
    rows_area.AREA,
    DISK,
)

CANNOT_BE_EXAMINED = (ConvMemoryError, DatabaseError, OSError)

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
            try:
                checked = _findings_of(area, check)
            except DatabaseUnavailable as error:
                remedy = "Start the database, or check DATABASE_URL."
                checked = [Finding("database.unreachable", Severity.ERROR, str(error), remedy)]
            except CANNOT_BE_EXAMINED as error:
                logger.debug("%s failed", check.__name__, exc_info=True)
                checked = [
                    Finding(
                        f"{area.name}.unknown",
                        Severity.ERROR,
                        f"{check.__name__.removeprefix('check_')} could not be examined: {str(error).strip()}",
                        f"Fix the other findings and run `{COMMAND} doctor` again.",
                    )
                ]
            report.findings += map(_shown, checked)
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


def _findings_of(area: Area, check: Check) -> list[Finding]:
    if not area.by_archives:
        return list(check())
    return list(chain.from_iterable(for_all_archives(lambda: [_of_group(finding) for finding in check()])))


def _of_group(finding: Finding) -> Finding:
    """Return the finding with the group in which it was found, if there is one, and in which it is repaired."""
    number, fix = acting.current().group, finding.fix
    if number is None:
        return finding

    def fix_there() -> str:
        assert fix is not None
        with acting.in_group(number):
            return fix()

    return replace(finding, message=f"Group {number}: {finding.message}", fix=fix_there if fix else None)


def _shown(finding: Finding) -> Finding:
    return replace(finding, message=masked(finding.message), remedy=masked(finding.remedy))


def _facts(area: Area) -> Iterator[Fact]:
    try:
        yield from area.facts()
    except CANNOT_BE_EXAMINED as error:
        yield "unknown", str(error).strip()
