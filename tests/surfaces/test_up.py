"""`manage.py up` as a person runs it: the real command on a data folder of its own.

The tests of one class share a running instance and stand in the order of its life.
"""

import inspect
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from django.conf import settings

import convmemory
from convmemory.ops.management.commands.up import DATABASE_STOP_TIMEOUT_S
from convmemory.ops.privacy.backup import verify
from convmemory.ops.runtime.supervisor import KILL_TIMEOUT_S, Supervisor
from tests.support.patience import PROCESSES_S, wait_until
from tests.support.prepared_folder import copy_prepared_folder

pytestmark = pytest.mark.slow

START_TIMEOUT_S = PROCESSES_S
STOP_TIMEOUT_S = 60.0
STOP_S = 10  # that a stop may take on a machine that has nothing else to do
STOPS_DURING_THE_START = 5


class House:
    """A data folder, a port, and the `up` that runs on them."""

    def __init__(self, folder: Path, *, with_samples: bool) -> None:
        self.folder = folder
        self.with_samples = with_samples
        self.port = free_port()
        self.log = folder.with_name("up.log")
        self.process: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        ours = {"CONVMEMORY_VAR": str(self.folder), "PORT": str(self.port), "WORKERS": "1"}
        ours["SAMPLES"] = "1" if self.with_samples else "0"
        ignored = ("DATABASE_URL", "BACKUP_FOLDER")
        theirs = {name: value for name, value in os.environ.items() if not name.startswith(ignored)}
        return theirs | ours

    def start(self) -> None:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up"],
                cwd=settings.BASE_DIR,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_until(self.answers, START_TIMEOUT_S)

    def answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as response:
            return bool(response.status == 200)
        return False

    def wait_until(self, done: Callable[[], object], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < deadline, self.output()
            assert self.process is None or self.process.poll() is None, self.output()
            time.sleep(0.05)

    def output(self) -> str:
        return self.log.read_text()

    def stop(self, number: signal.Signals, *, group: bool) -> float:
        """Sends the signal and waits for the end; how many seconds that took."""
        assert self.process
        asked_at = time.monotonic()
        os.killpg(self.process.pid, number) if group else self.process.send_signal(number)
        self.process.wait(timeout=STOP_TIMEOUT_S + 5)
        return time.monotonic() - asked_at

    def wait_for_the_end(self) -> None:
        """Until no process of this data folder is left: what was killed may need a moment to go."""
        wait_until(lambda: self.processes() == [], "the end of every process", STOP_TIMEOUT_S)

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    def second_up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", "up", *arguments]
        environment, root = self.environment(), settings.BASE_DIR
        return subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=START_TIMEOUT_S
        )

    def processes(self) -> list[psutil.Process]:
        """Every living process of this data folder, PostgreSQL's too."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                return str(self.folder) in " ".join([*process.cmdline(), *process.environ().values()])
        return False

    def child(self, word: str) -> psutil.Process | None:
        """The child of `up` whose command holds `word`."""
        assert self.process
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):
                if word in " ".join(child.cmdline()):
                    return child
        return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[House]:
    """The tests of `make test` wait for no samples, whose loading and embedding would be most of their time."""
    tests = (item for item in request.session.items if item.path == request.path)
    with_samples = not all(item.get_closest_marker("essential") for item in tests)
    house = House(tmp_path_factory.mktemp("up") / "var", with_samples=with_samples)
    yield house
    for process in house.processes():
        with suppress(psutil.NoSuchProcess):
            process.kill()
    if house.process:
        house.process.wait()


@pytest.fixture
def running(house: House) -> House:
    """The house of the tests before; `make test-rest` leaves the first start out, and takes a database that is made."""
    if house.process is None:
        copy_prepared_folder(house.folder / "postgres")
        house.start()
    return house


class TestOneLife:
    @pytest.mark.essential
    def test_port_in_use_is_said_before_anything_starts(self, house: House) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", house.port))
            other.listen()
            result = house.second_up()

        assert result.returncode == 1
        assert f"Port {house.port} on 127.0.0.1 is in use by another program." in result.stderr
        assert f"PORT={house.port + 1} make run" in result.stderr
        assert not (house.folder / "postgres").exists()

    @pytest.mark.essential
    def test_first_start_answers_and_shows_password_once(self, house: House) -> None:
        house.start()

        output = house.output()
        assert output.count("password:") == 1
        assert re.search(
            rf"convmemory: http://127\.0\.0\.1:{house.port}\nuser:       admin\npassword:   \S{{16}} ", output
        )

    @pytest.mark.essential
    def test_first_start_writes_a_backup(self, house: House) -> None:
        house.wait_until(lambda: "Backup written and verified: " in house.output(), START_TIMEOUT_S)
        (backup,) = (house.folder / "backups").glob("convmemory-*.zip")
        assert verify(backup)["migrations"]

    def test_second_up_on_same_data_says_so_and_ends(self, running: House) -> None:
        assert running.process
        result = running.second_up("--port", str(free_port()))

        assert result.returncode == 1
        assert f"already runs on {running.folder}: process {running.process.pid}" in result.stderr
        assert f"http://127.0.0.1:{running.port}" in result.stderr
        running.wait_until(running.answers, START_TIMEOUT_S)

    def test_web_server_loads_model_before_first_search(self, running: House) -> None:
        def loaded() -> bool:
            web = running.child("uvicorn")
            return web is not None and any("onnxruntime" in mapped.path for mapped in web.memory_maps())

        running.wait_until(loaded, START_TIMEOUT_S)

    def test_killed_web_server_starts_again(self, running: House) -> None:
        web = running.child("uvicorn")
        assert web
        web.kill()

        running.wait_until(lambda: "web ended (killed by SIGKILL)" in running.output(), START_TIMEOUT_S)
        running.wait_until(running.answers, START_TIMEOUT_S)

    def test_killed_worker_starts_again_and_leaves_no_orphans(self, running: House) -> None:
        running.wait_until(lambda: "sample conversations are loaded" in running.output(), START_TIMEOUT_S)
        running.wait_until(lambda: running.child("qcluster"), START_TIMEOUT_S)
        worker = running.child("qcluster")
        assert worker
        family = [worker, *worker.children(recursive=True)]
        worker.kill()

        running.wait_until(lambda: "worker ended (killed by SIGKILL)" in running.output(), START_TIMEOUT_S)
        running.wait_until(lambda: (again := running.child("qcluster")) and again.pid != worker.pid, START_TIMEOUT_S)
        assert not [process for process in family if process.is_running() and process.status() != "zombie"]

    @pytest.mark.essential
    def test_sigint_to_group_ends_everything_in_time(self, house: House) -> None:
        took_s = house.stop(signal.SIGINT, group=True)

        assert took_s < STOP_TIMEOUT_S
        assert house.process
        assert house.process.returncode == 0, house.output()
        house.wait_for_the_end()
        assert "\nTraceback" not in house.output()  # of the supervisor; its children's lines have a prefix


def test_stop_waits_for_no_more_than_ten_seconds() -> None:
    """Of the product's own limits, as the clock of a busy machine says little about them."""
    grace_s = inspect.signature(Supervisor).parameters["grace_s"].default
    assert grace_s + KILL_TIMEOUT_S + DATABASE_STOP_TIMEOUT_S <= STOP_S


def test_after_kill_9_next_up_works_and_term_ends_it(house: House) -> None:
    if house.process is None or house.process.poll() is not None:
        house.start()
    house.kill()
    house.port = free_port()
    older = [sys.executable, "manage.py", "migrate", "accounts", "0001_initial", "--verbosity", "0"]
    subprocess.run(older, cwd=settings.BASE_DIR, env=house.environment(), check=True, timeout=START_TIMEOUT_S)
    house.start()

    assert "password" not in house.output()
    version = convmemory.__version__
    assert f"Updating from an earlier commit of {version} to {version}: " in house.output()
    assert "Applying accounts.0002_archives... OK" in house.output()
    (backup,) = (house.folder / "before-updates").glob("convmemory-*.zip")
    assert ["accounts", "0002_archives"] not in verify(backup)["migrations"]
    assert house.stop(signal.SIGTERM, group=False) < STOP_TIMEOUT_S
    house.wait_for_the_end()


def test_stop_during_start_leaves_nothing(house: House) -> None:
    for _ in range(STOPS_DURING_THE_START):
        with house.log.open("wb") as log:
            environment, root = house.environment(), settings.BASE_DIR
            command = [sys.executable, "manage.py", "up"]
            house.process = subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=log)
        house.wait_until(lambda: "Starting the database" in house.output(), START_TIMEOUT_S)

        assert house.stop(signal.SIGTERM, group=False) < STOP_TIMEOUT_S
        assert house.process.returncode == 0
        house.wait_for_the_end()
        if "Stopped before everything was started." in house.output():
            return
        assert "convmemory: http" in house.output(), "only a stop that came after the start goes without these words"
    pytest.fail("every stop came too late")
