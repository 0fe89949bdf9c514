"""A trial, not a test: processes are killed and disks fill up while the product works; nothing may be lost or doubled.

`python -m tests.trials.faults` starts the product on a scratch folder, on 127.0.0.1. Each fault strikes once while an
import of 30,000 messages, uploads of documents, chat streams and a reembed are under way, and once more while the
database is migrated. Full disks are small file systems in memory, which only root can mount. The trial prints a table
of what held and ends with 1 if anything failed. It takes minutes; `--only` chooses faults and activities by name.
"""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from json import loads
from pathlib import Path

import httpx2
import psutil
import psycopg

from tests.support.chat_server import running_chat_server
from tests.support.installation import ROOT, Installation
from tests.support.patience import wait_until
from tests.support.stored_state import StoredState
from tests.support.tiny_bert import write_tiny_bert
from tests.trials.fault_activities import ACTIVITIES, MARKER, Activity, Scene, cancel_building

STARTED = time.monotonic()
USERS = {"ada": "a harbour full of cedar", "bea": "an island full of kelp"}
MIGRATION = "migration"
FINALLY = "afterwards"
LARGE_MB, LEFT_BYTES, BROKEN_S = 4_096, 128 * 1024, 4.0
UNDER_WAY_S, ATTENTION_S, ROUNDS = 180, 15, 12
INDEXED_S = 900
SWEEPS = """
from pydoc import locate
from convmemory.ops.runtime.schedules import SCHEDULES
for function, _ in SCHEDULES.values():
    locate(function)()
"""
UNAPPLY = """
from django.core.management import call_command
from convmemory.core import acting
with acting.schema_owner():
    call_command("migrate", "accounts", "0001_initial", verbosity=0)
"""
UNAPPLIED = "accounts.0002_archives"
WAITING = "SELECT count(*) FROM pg_locks WHERE relation = 'django_migrations'::regclass AND NOT granted"
PASS_TIME = """
UPDATE conversations_import SET lease_until = now()
    WHERE state = 'running' AND lease_until < %(struck)s::timestamptz + interval '60 s';
UPDATE core_ownertask SET leased_until = NULL WHERE leased_until < %(struck)s::timestamptz
    + CASE WHEN is_long OR owner_id IS NULL THEN interval '660 s' ELSE interval '120 s' END;
UPDATE core_ownertask SET due_at = now() WHERE due_at > now()
"""
"""Leases that were last renewed before the fault run out, and pauses between attempts end."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: how it strikes, and how it is mended if the product cannot do it itself."""

    strike: Callable[[Scene], None]
    mend: Callable[[Scene], None]
    strikes_migrations: bool = True
    full: str = ""
    """The folder that gets full; only root can do this."""


def kill_child(name: str) -> Callable[[Scene], None]:
    def kill(scene: Scene) -> None:
        os.kill(_child(scene, name), signal.SIGKILL)

    return kill


def kill_postgres(scene: Scene) -> None:
    pid = int((scene.stored.var / "postgres" / "postmaster.pid").read_text(encoding="utf-8").split()[0])
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(pid), "the end of PostgreSQL", 30, 0.05)


def kill_supervisor(scene: Scene) -> None:
    assert scene.installation.process
    scene.installation.process.kill()
    scene.installation.process.wait()


def start_again(scene: Scene) -> None:
    scene.installation.begin_start()


def start_second(scene: Scene) -> None:
    """A second supervisor on the same folder, which has to refuse."""
    environment = scene.installation.environment()
    command = [sys.executable, "manage.py", "up", "--port", str(scene.installation.port + 1)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0, "a second supervisor started on the same folder"
    assert "already runs" in done.stderr, done.stderr[-500:]


def fill(folder: str) -> Callable[[Scene], None]:
    def make_full(scene: Scene) -> None:
        scene.may_refuse = True
        wait_until(lambda: _has_no_room(scene.installation.folder / folder), f"a full {folder}", 30, 0.01)

    return make_full


def _has_no_room(place: Path) -> bool:
    """Shrink the file system until the next larger file is cut off; False if it grew meanwhile."""
    return _mount(f"remount,size={shutil.disk_usage(place).used + LEFT_BYTES}", place)


def make_room(folder: str) -> Callable[[Scene], None]:
    def enlarge(scene: Scene) -> None:
        assert _mount(f"remount,size={LARGE_MB}m", scene.installation.folder / folder)

    return enlarge


def nothing(scene: Scene) -> None:
    """The product mends it itself."""


SMALL_DISKS = ("var", "var/media", "var/imports", "tmp")
FAULTS = {
    "kill web": Fault(kill_child("web"), nothing),
    "kill worker": Fault(kill_child("worker"), nothing),
    "kill PostgreSQL": Fault(kill_postgres, nothing),
    "kill supervisor": Fault(kill_supervisor, start_again),
    "two supervisors": Fault(start_second, nothing),
    "full media": Fault(fill("var/media"), make_room("var/media"), strikes_migrations=False, full="var/media"),
    "full imports": Fault(fill("var/imports"), make_room("var/imports"), strikes_migrations=False, full="var/imports"),
    "full temp": Fault(fill("tmp"), make_room("tmp"), strikes_migrations=False, full="tmp"),
    "full database": Fault(fill("var"), make_room("var"), full="var"),
}


def _child(scene: Scene, name: str) -> int:
    record = loads((scene.stored.var / "up.json").read_text(encoding="utf-8"))
    return int(record["children"][name]["pid"])


def _mount(options: str, place: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


@dataclass(slots=True)
class Trial:
    """The complaints found, by fault and activity."""

    scene: Scene
    found: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    struck_at: str = "-infinity"

    def prepare(self) -> None:
        """Two users, and an archive of one of them that a reembed has work with."""
        installation = self.scene.installation
        for name, password in USERS.items():
            self.scene.keys[name] = installation.make_user(name, password)
        rows = self.scene.stored.rows("SELECT username, id FROM auth_user")
        self.scene.owners = {str(name): int(number) for name, number in rows}
        messages = [
            {"role": "assistant" if n % 2 else "user", "content": f"a cat and mat {n}, the cats sat."}
            for n in range(100)
        ]
        for _ in range(8):
            self.scene.send_until_accepted("bea", "POST", "/conversations", json={"messages": messages})
        wait_until(lambda: self._is_indexed("bea"), "the first index", INDEXED_S, 1)

    def attempt(self, name: str, activities: list[str], work: Callable[[], None]) -> None:
        """Call `work`; if it cannot go on, note that for all activities, and get everything running again."""
        try:
            work()
        except (AssertionError, psycopg.Error, httpx2.HTTPError, OSError) as error:
            for activity in activities:
                self._note(name, activity, [f"it could not go on: {type(error).__name__}: {error}"])
            if FAULTS[name].full:
                FAULTS[name].mend(self.scene)
            process = self.scene.installation.process
            if process is None or process.poll() is not None:
                self.scene.installation.begin_start()
            self.scene.installation.wait_until_ready()

    def run(self, name: str, activities: list[str]) -> None:
        """Strike once while the activities are under way, then compare stored and accepted items."""
        fault, scene = FAULTS[name], self.scene
        scene.may_refuse = False
        doing: dict[str, Activity] = {activity: ACTIVITIES[activity](scene) for activity in activities}
        for activity in doing.values():
            activity.begin()
        wait_until(lambda: self._all_under_way(doing), "activities under way", UNDER_WAY_S, 0.05)
        say("  all under way")
        self._strike(name, activities, fault)
        for activity in doing.values():
            activity.continue_while_broken()
        if fault.full:
            time.sleep(BROKEN_S)
        self._recover(fault)
        say("  recovered")
        for activity in doing.values():
            activity.repeat()
        self._settle(doing)
        say("  settled")
        for activity_name, activity in doing.items():
            self._note(name, activity_name, activity.complaints())
        self._note(name, FINALLY, self._leftovers())

    def migrate(self, name: str) -> None:
        """Strike while a migration waits for a lock, one migration being applied and one not."""
        fault, scene = FAULTS[name], self.scene
        scene.installation.manage("shell", "--verbosity", "0", "-c", UNAPPLY)
        with self._migrating(by_supervisor=name in ("kill supervisor", "two supervisors")) as process:
            self._strike(name, [MIGRATION], fault)
        self._recover(fault)
        if process is not None:
            process.wait(120)
        scene.installation.manage("migrate", "--verbosity", "0")
        self._note(name, MIGRATION, self._migration_defects())
        self._note(name, MIGRATION, scene.stored.unfinished())

    def finish(self) -> None:
        """Wait until everything is indexed and compare it; what is wrong now cannot be told by fault."""
        for _ in range(ROUNDS):
            with suppress(AssertionError):
                wait_until(lambda: not self._vector_defects(), "the vectors", INDEXED_S / ROUNDS, 5)
                break
            self.pass_time()
        self._note(FINALLY, FINALLY, self._vector_defects())

    def pass_time(self) -> None:
        """Let the leases of dead workers run out, files grow old, and every scheduled task run once."""
        for statement in PASS_TIME.split(";"):
            self.scene.stored.rows(statement, {"struck": self.struck_at} if "%" in statement else ())
        self.scene.stored.age_files(2 * 86_400)
        self.scene.installation.manage("shell", "--verbosity", "0", "-c", SWEEPS)

    def _all_under_way(self, doing: dict[str, Activity]) -> bool:
        return all(activity.is_under_way() for activity in doing.values())

    def _strike(self, name: str, activities: list[str], fault: Fault) -> None:
        self.struck_at = str(self.scene.stored.value("SELECT now()"))
        try:
            fault.strike(self.scene)
        except AssertionError as error:
            for activity in activities:
                self._note(name, activity, [str(error)])

    def _recover(self, fault: Fault) -> None:
        fault.mend(self.scene)
        self.scene.installation.wait_until_ready()
        wait_until(lambda: psutil.pid_exists(_child(self.scene, "worker")), "a worker", 60)

    def _settle(self, doing: dict[str, Activity]) -> None:
        """Wait until all is done; time passes twice at least, so that every sweep has looked at what is left."""
        for number in range(ROUNDS):
            with suppress(AssertionError):
                wait_until(lambda: self._all_settled(doing), "the end", ATTENTION_S, 0.5)
                if number:
                    return
            self.pass_time()
        say(f"  not settled after {ROUNDS} rounds of {ATTENTION_S} s: what follows may only be unfinished")

    def _all_settled(self, doing: dict[str, Activity]) -> bool:
        return all(activity.is_settled() for activity in doing.values())

    def _leftovers(self) -> Iterator[str]:
        stored = self.scene.stored
        yield from stored.unfinished()
        yield from stored.file_defects()
        yield from stored.plain_text(MARKER)

    def _vector_defects(self) -> list[str]:
        stored = self.scene.stored
        space = stored.value("SELECT id FROM embeddings_embeddingspace WHERE is_active")
        return [
            f"{defect}, of {user}"
            for user, archive_id in self.scene.owners.items()
            for defect in stored.vector_defects(archive_id=archive_id, space_id=space)
        ]

    def _is_indexed(self, user: str) -> bool:
        status, body = self.scene.send(user, "GET", "/index/status")
        return status == 200 and body["turns"] > 0 and body["pending"] == 0

    @contextmanager
    def _migrating(self, *, by_supervisor: bool) -> Iterator[subprocess.Popen[bytes] | None]:
        """A migration that waits for a table which is locked until the block ends."""
        scene, process = self.scene, None
        with ExitStack() as stack:
            if by_supervisor:
                users = stack.enter_context((scene.stored.var / "postgres.users").open())
                fcntl.flock(users, fcntl.LOCK_SH)  # PostgreSQL stays although all who use it leave
                kill_supervisor(scene)
                wait_until(lambda: not psutil.pid_exists(_child(scene, "web")), "the end of the web process", 30)
            lock = scene.stored.connect()
            stack.callback(lock.close)
            lock.autocommit = False
            lock.execute("LOCK TABLE django_migrations IN SHARE MODE")
            if by_supervisor:
                scene.installation.begin_start()
            else:
                command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
                process = subprocess.Popen(
                    command, cwd=ROOT, env=scene.installation.environment(), stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )  # fmt: skip
            wait_until(lambda: bool(scene.stored.value(WAITING)), "the migration", 60, 0.05)
            yield process
            with suppress(psycopg.Error):  # its server may be dead
                lock.rollback()

    def _migration_defects(self) -> Iterator[str]:
        applied = "SELECT count(*) FROM django_migrations WHERE app || '.' || name = %s"
        if not self.scene.stored.value(applied, [UNAPPLIED]):
            yield f"{UNAPPLIED} is not applied"
        doubled = "SELECT app || '.' || name FROM django_migrations GROUP BY app, name HAVING count(*) > 1"
        yield from (f"{name} is noted twice" for (name,) in self.scene.stored.rows(doubled))
        yield from self.scene.stored.tables_without_policy()

    def _note(self, fault: str, activity: str, complaints: Iterator[str] | list[str]) -> None:
        cell = self.found.setdefault((fault, activity), [])
        try:
            cell.extend(complaints)
        except (psycopg.Error, AssertionError, OSError) as error:
            cell.append(f"{type(error).__name__}: {error}")
        for complaint in cell:
            say(f"  {fault}, {activity}: {complaint}")

    def report(self, faults: list[str], activities: list[str]) -> int:
        columns = [*activities, FINALLY]
        width = max(map(len, [*FAULTS, FINALLY]))
        say(" | ".join([" " * width, *(f"{column:>10}" for column in columns)]))
        for name in [*faults, FINALLY]:
            cells = [self._cell(name, column) for column in columns]
            say(" | ".join([f"{name:<{width}}", *(f"{cell:>10}" for cell in cells)]))
        failed = {key: texts for key, texts in self.found.items() if texts}
        for (fault, activity), texts in failed.items():
            for text in dict.fromkeys(texts):
                say(f"FAILED: {fault}, {activity}: {text}")
        return 1 if failed else 0

    def _cell(self, fault: str, activity: str) -> str:
        if (fault, activity) not in self.found:
            needs_root = fault in FAULTS and FAULTS[fault].full and os.geteuid() != 0
            return "needs root" if needs_root else "-"
        return "FAILED" if self.found[fault, activity] else "held"


def say(text: str) -> None:
    print(f"{time.monotonic() - STARTED:4.0f} s  {text}", flush=True)


@contextmanager
def small_disks(folder: Path) -> Iterator[None]:
    """File systems of their own for the folders in `SMALL_DISKS`, where this process may mount any."""
    mounted: list[Path] = []
    try:
        for name in SMALL_DISKS if os.geteuid() == 0 else ():
            place = folder / name
            place.mkdir(mode=0o755 if name == "var" else 0o700)
            assert _mount(f"size={LARGE_MB}m,mode={place.stat().st_mode & 0o777:o}", place), f"{place} is not mounted"
            mounted.append(place)
        yield
    finally:
        for place in reversed(mounted):
            subprocess.run(["umount", "-l", str(place)], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [*FAULTS, *ACTIVITIES, MIGRATION]
    parser.add_argument("--only", action="append", default=[], choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--messages", type=int, default=30_000, help="of the import")
    parser.add_argument("--log", type=Path, help="a file for what the product wrote")
    options = parser.parse_args()
    faults = [name for name in FAULTS if name in options.only] or list(FAULTS)
    activities = [name for name in [*ACTIVITIES, MIGRATION] if name in options.only] or [*ACTIVITIES, MIGRATION]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # not without stopping the server
    with tempfile.TemporaryDirectory(prefix="faults-") as name, running_chat_server() as endpoint:
        folder = Path(name)
        folder.chmod(0o755)
        settings = {
            "CHAT_BASE_URL": endpoint.url, "CHAT_API_KEY": endpoint.key, "CHAT_MODEL": "test-model",
            "CHAT_LEASE_S": "2", "REQUEST_IDLE_S": "600",
            "REQUEST_MIN_BYTES_PER_S": "1", "WORKERS": "3",
            "EMBEDDING_MODEL_PATH": str(write_tiny_bert(folder / "models" / "first", seed=0)),
        }  # fmt: skip
        with small_disks(folder):
            installation = Installation(folder, settings)
            stored = StoredState(folder / "var", installation.temporary)
            scene = Scene(installation, stored, endpoint, options.messages)
            try:
                installation.start()
                return run(Trial(scene), faults, activities)
            except BaseException as error:
                error.add_note(_without_requests(installation.log())[-5_000:])
                raise
            finally:
                for command in [command for command in scene.commands if command.poll() is None]:
                    os.killpg(command.pid, signal.SIGKILL)
                    command.wait()
                installation.stop()
                if options.log:
                    options.log.write_text(_without_requests(installation.log()), encoding="utf-8")


def _without_requests(log: str) -> str:
    return "\n".join(line for line in log.splitlines() if "uvicorn.access" not in line)


def run(trial: Trial, faults: list[str], activities: list[str]) -> int:
    possible = [name for name in faults if os.geteuid() == 0 or not FAULTS[name].full]
    for name in set(faults) - set(possible):
        say(f"{name}: skipped: needs root")
    if together := [name for name in activities if name != MIGRATION]:
        trial.prepare()
        for name in possible:
            say(f"{name} during {', '.join(together)}")
            trial.attempt(name, together, partial(trial.run, name, together))
        cancel_building(trial.scene.stored)
        say("the index")
        trial.finish()
    for name in [name for name in possible if FAULTS[name].strikes_migrations] if MIGRATION in activities else ():
        say(f"{name} during a migration")
        trial.attempt(name, [MIGRATION], partial(trial.migrate, name))
    return trial.report(faults, activities)


if __name__ == "__main__":
    sys.exit(main())
