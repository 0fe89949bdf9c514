"""`manage.py up` on a scratch folder of its own: the product as a person starts it, for trials.

Temporary files of its processes lie in the folder, too, so that what an upload leaves there can be counted.
"""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.support.fleet import free_port
from tests.support.patience import wait_until

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S, STOP_TIMEOUT_S = 180, 20
IDLE_S, IDLE_SHARE, IDLE_TIMEOUT_S = 3.0, 0.1, 300


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of all web processes and of all workers with their children, PostgreSQL left out.

    What processes share, as a forked child does with its parent, is counted once where the system can tell.
    """

    web: int
    workers: int

    @property
    def total(self) -> int:
        return self.web + self.workers


@dataclass(slots=True)
class Installation:
    """A running `manage.py up`; `settings` are environment variables on top of the defaults."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def environment(self) -> dict[str, str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_URL")}
        ours = {"CONVMEMORY_VAR": str(self.folder / "var"), "PORT": str(self.port), "TMPDIR": str(self.temporary)}
        return outside | ours | dict(self.settings)

    def start(self) -> None:
        self.begin_start()
        self.wait_until_ready()

    def begin_start(self) -> None:
        """Start `manage.py up`, also again after it was killed, without waiting for it."""
        self.temporary.mkdir(exist_ok=True)
        with (self.folder / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up"], cwd=ROOT, env=self.environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def wait_until_ready(self) -> None:
        wait_until(self._is_ready, "the server", START_TIMEOUT_S)

    def _is_ready(self) -> bool:
        assert self.process
        assert self.process.poll() is None, self.log()
        with suppress(OSError), urllib.request.urlopen(f"{self.address}/ready", timeout=5) as response:
            return bool(response.status == 200)
        return False

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def manage(self, *arguments: str) -> str:
        """Run a command to its end; what it wrote."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments], cwd=ROOT, env=self.environment(), capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def make_user(self, name: str, password: str) -> str:
        """A key of a new user, who can also sign in, for all their spaces."""
        key = self.manage("create_api_key", name, "--create", "--all-spaces").split()[-1]
        code = f"u = User.objects.get(username={name!r}); u.set_password({password!r}); u.save()"
        self.manage("shell", "--verbosity", "0", "-c", f"from django.contrib.auth.models import User; {code}")
        return key

    def memory(self) -> Memory:
        assert self.process
        web = workers = 0
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):
                size = _resident([child, *child.children(recursive=True)])
                if _is_worker(child):
                    workers += size
                else:
                    web += size
        return Memory(web, workers)

    def wait_until_idle(self) -> None:
        """Wait until the workers have had nothing to do for some seconds."""
        wait_until(lambda: self._workers_cpu_s(IDLE_S) < IDLE_SHARE * IDLE_S, "idle workers", IDLE_TIMEOUT_S)

    def _workers_cpu_s(self, seconds: float) -> float:
        before = self._cpu_s_of_workers()
        time.sleep(seconds)
        return self._cpu_s_of_workers() - before

    def _cpu_s_of_workers(self) -> float:
        assert self.process
        workers = [child for child in psutil.Process(self.process.pid).children() if _is_worker(child)]
        return sum(
            sum(process.cpu_times()[:4]) for worker in workers for process in [worker, *worker.children(recursive=True)]
        )

    def temporary_bytes(self) -> int:
        """Return the bytes in the folder of temporary files, with files there that are open but already unlinked."""
        assert self.process
        sizes = {}
        for folder, _, names in os.walk(self.temporary):  # goes on where a folder vanishes meanwhile
            for name in names:
                with suppress(OSError):
                    found = Path(folder, name).stat()
                    sizes[found.st_ino] = found.st_size
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(OSError, psutil.Error):
                sizes |= _unlinked(Path(f"/proc/{child.pid}/fd"), str(self.temporary))
        return sum(sizes.values())

    def log(self) -> str:
        return (self.folder / "up.log").read_text(errors="replace")


def _is_worker(process: psutil.Process) -> bool:
    return bool({"worker", "qcluster"} & set(process.cmdline()))


def _resident(processes: list[psutil.Process]) -> int:
    total = 0
    for process in processes:
        with suppress(psutil.Error):
            found = process.memory_full_info()
            total += getattr(found, "pss", found.rss)
    return total


def _unlinked(descriptors: Path, folder: str) -> dict[int, int]:
    found = {}
    for link in descriptors.iterdir() if descriptors.is_dir() else ():
        with suppress(OSError):
            if os.readlink(link).startswith(folder):
                file = link.stat()
                found[file.st_ino] = file.st_size
    return found


@contextmanager
def running_installation(folder: Path, settings: Mapping[str, str]) -> Iterator[Installation]:
    installation = Installation(folder, settings)
    try:
        installation.start()
        yield installation
    except BaseException as error:
        error.add_note(installation.log()[-3_000:])
        raise
    finally:
        installation.stop()
