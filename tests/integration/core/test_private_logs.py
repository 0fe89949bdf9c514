"""No log holds what people wrote: neither the embedded server's, nor the program's, nor the history of tasks.

A marker stands in texts; errors that quote it are provoked; then everything that was written is searched for it.
"""

import asyncio
import gc
import io
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import Value
from pathlib import Path
from queue import Queue
from typing import Any

import httpx2
import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import DataError, IntegrityError, connection, transaction
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import resolve
from django.utils.log import log_response
from django_q.models import Failure
from django_q.monitor import monitor
from django_q.worker import worker
from psycopg import sql

from convmemory.core.errors import EmbedderUnavailable, InvalidInput
from convmemory.core.logs import JsonFormatter, PlainFormatter, quoted, safe_traceback
from convmemory.core.postgres import configuration, embedded, server
from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.core.queue import broker, fair_queue
from convmemory.embeddings.spaces import active_space
from convmemory.ops.observability.index_samples import failure_reasons
from convmemory.ops.privacy.erasing import erase_user
from convmemory.ops.runtime.instance import web_command
from search.models import SourceIndex
from tests.conftest import FAST_OPTIONS
from tests.factories import exchange, make_conversation, make_user, source_id
from tests.support.patience import wait_until
from tests.support.web_process import web_process

MARKER = "zebrafinch"
TABLE = "CREATE TABLE note (id int PRIMARY KEY, said varchar(40) UNIQUE, number int CHECK (number > 0), document jsonb)"
STATEMENTS = {
    "a row that is there already": f"INSERT INTO note VALUES (1, '{MARKER}')",
    "a text that is too long": f"INSERT INTO note VALUES (2, '{MARKER * 5}')",
    "a row that breaks a check": f"INSERT INTO note VALUES (3, 'my {MARKER}', -1)",
    "a text that is no number": f"SELECT '{MARKER}'::int",
    "a text that is no JSON": f"""INSERT INTO note VALUES (4, '', 1, '{{"{MARKER}": oops}}')""",
    "a text that is no query": f"SELECT 'the {MARKER} &&& !'::tsquery",
    "a slip of the pen": f"SELECT '{MARKER}' FROMM note",
    "an error in a function": f"DO $$ BEGIN RAISE EXCEPTION 'about {MARKER}' USING DETAIL = '{MARKER}'; END $$",
    "a warning": f"DO $$ BEGIN RAISE WARNING 'about {MARKER}'; END $$",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server of its own, for its log and for what is done to it. A version that logged texts ran it before."""
    folder = tmp_path_factory.mktemp("logs") / "postgres"
    embedded.join(folder, FAST_OPTIONS)
    server.stop(folder)
    (folder / "convmemory.conf").write_text("# Written by convmemory at each start.\njit = 'off'\n")
    (folder / "server.log.1").write_text(MARKER)
    embedded.revive(folder, FAST_OPTIONS)
    with connect(folder) as link:
        link.execute(TABLE)
        link.execute("INSERT INTO note VALUES (1, %s, 1)", [MARKER])
    yield folder
    server.stop(folder)


def connect(folder: Path) -> psycopg.Connection:
    running = server.wait_until_settled(folder)
    assert running
    parameters = {
        "host": str(running.socket_dir),
        "port": configuration.PORT,
        "user": "postgres",
        "dbname": "convmemory",
    }
    for _ in range(2_400):
        with suppress(psycopg.OperationalError):  # it recovers
            return psycopg.connect(**parameters, autocommit=True)  # type: ignore[arg-type]
        time.sleep(0.05)
    raise AssertionError("the server does not come back")


def log_of(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("server.log*"))


@pytest.mark.slow
def test_log_of_version_that_logged_statements_goes_with_update(folder: Path) -> None:
    assert configuration.was_discreet(folder)
    assert MARKER not in log_of(folder)


def test_errors_of_statements_leave_nothing_in_server_s_log(folder: Path) -> None:
    with connect(folder) as link:
        for name, statement in STATEMENTS.items():
            assert MARKER in statement, name
            with suppress(psycopg.Error):
                link.execute(statement.encode())
        with pytest.raises(psycopg.Error):
            link.execute("SELECT %s::int", [MARKER])  # bound apart from the statement
        with pytest.raises(psycopg.errors.QueryCanceled):
            link.execute(f"SET statement_timeout = 50; SELECT pg_sleep(9), '{MARKER}'".encode())
    assert "ready to accept connections" in log_of(folder)
    assert MARKER not in log_of(folder)


def test_deadlock_leaves_nothing_in_server_s_log(folder: Path) -> None:
    failed: list[psycopg.Error] = []
    both = threading.Barrier(2)

    def lock(first: AdvisoryLock, second: AdvisoryLock) -> None:
        with connect(folder) as link, link.transaction():
            link.execute("SET LOCAL deadlock_timeout = '100ms'")
            link.execute("SELECT pg_advisory_xact_lock(%s)", [first])
            both.wait()
            try:
                link.execute(sql.SQL("SELECT pg_advisory_xact_lock({}), {}").format(second, MARKER))
            except psycopg.errors.DeadlockDetected as error:
                failed.append(error)

    numbers = (AdvisoryLock.INDEXING, AdvisoryLock.BUILDING)
    threads = [threading.Thread(target=lock, args=pair) for pair in (numbers, numbers[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failed) == 1
    assert MARKER not in log_of(folder)


def test_process_that_is_killed_at_work_leaves_nothing_in_server_s_log(folder: Path) -> None:
    link = connect(folder)

    def work() -> None:
        with pytest.raises(psycopg.OperationalError):
            link.execute(f"SELECT pg_sleep(300), '{MARKER}'".encode())

    at_work = threading.Thread(target=work)
    at_work.start()
    _wait_until_active(folder, link.info.backend_pid)
    os.kill(link.info.backend_pid, signal.SIGKILL)
    at_work.join()
    link.close()
    wait_until(lambda: "was terminated by signal 9" in log_of(folder), "the server's note of it", 60)
    assert MARKER not in log_of(folder)


def _wait_until_active(folder: Path, pid: int) -> None:
    with connect(folder) as watcher:
        for _ in range(2_400):
            row = watcher.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone()
            if row == ("active",):
                return
            time.sleep(0.05)
    raise AssertionError("the statement does not begin")


def test_clearing_log_leaves_server_writing_it(folder: Path) -> None:
    (folder / "server.log.1").write_text(MARKER)
    with (folder / "server.log").open("a") as log:
        log.write(f"{MARKER}\n")
    assert server.clear_log(folder) == 2
    assert MARKER not in log_of(folder)
    with connect(folder) as link:
        link.execute("SELECT pg_reload_conf()")
        wait_until(lambda: "SIGHUP" in log_of(folder), "the server's note of the new settings", 60)
    assert "\x00" not in log_of(folder)


@pytest.mark.django_db
def test_erasing_person_empties_server_s_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(connection.settings_dict, "EMBEDDED_PATH", tmp_path)
    (tmp_path / "server.log").write_text(MARKER)
    (tmp_path / "server.log.1").write_text(MARKER)
    receipt = erase_user(user=make_user("ada"))
    assert log_of(tmp_path) == ""
    assert receipt.deleted["logs of the embedded server"] == 2


def say_row_twice() -> None:
    with transaction.atomic():
        User.objects.create(username=MARKER)
        User.objects.create(username=MARKER)


def say_too_much() -> None:
    with transaction.atomic():
        User.objects.create(username=MARKER * 50)


def say_bad_bytes() -> None:
    User.objects.filter(username=f"{MARKER}\x00").exists()


def say_no_number() -> None:
    int(f"my {MARKER}")


def say_unknown_key() -> None:
    dict[str, int]()[MARKER]


def say_pasted_stack() -> None:
    raise RuntimeError(
        f'Traceback (most recent call last):\n  File "{MARKER}.py", line 1\n    {MARKER}\nKeyError: {MARKER}'
    )


def say_chain() -> None:
    try:
        say_no_number()
    except ValueError as error:
        raise RuntimeError(f"again {MARKER}") from error


def say_refusal() -> None:
    raise EmbedderUnavailable(f"The endpoint refuses every text: {quoted(f'too long: {MARKER}')}")


ERRORS = (
    say_row_twice,
    say_too_much,
    say_bad_bytes,
    say_no_number,
    say_unknown_key,
    say_pasted_stack,
    say_chain,
    say_refusal,
)


@pytest.fixture
def written() -> Iterator[Callable[[], str]]:
    """Yield a function that returns the output of all loggers so far, in both formats."""
    output = io.StringIO()
    handlers = []
    for formatter in (PlainFormatter(), JsonFormatter()):
        handler = logging.StreamHandler(output)
        handler.setFormatter(formatter)
        handlers.append(handler)
    loggers = [
        logging.getLogger(name) for name in (None, "convmemory", "search", "django-q", "django.request", "uvicorn")
    ]
    for log in loggers:
        for handler in handlers:
            log.addHandler(handler)
    yield output.getvalue
    for log in loggers:
        for handler in handlers:
            log.removeHandler(handler)


@pytest.mark.django_db
@pytest.mark.parametrize("fail", ERRORS)
def test_program_log_of_error_holds_its_place_but_no_values(
    fail: Callable[[], None], written: Callable[[], str]
) -> None:
    log = logging.getLogger("convmemory.tests")
    kind = ""
    try:
        fail()
    except Exception as error:
        kind = type(error).__name__
        log.exception("It failed")
        log.warning("It failed: %s", error)
        log.warning("It failed: %r", error)
    text = written()
    assert MARKER not in text
    assert fail.__name__ in text
    assert text.count(f"It failed: {kind}") >= 2


@pytest.mark.django_db
@pytest.mark.parametrize("fail", ERRORS)
def test_task_history_of_error_holds_its_place_but_no_values(
    fail: Callable[[], None], written: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django.db.close_old_connections", lambda: None)
    monkeypatch.setattr(fair_queue, "function_of", lambda path: lambda source_id, archive_id: fail())
    fair_queue.enqueue_for(make_user().pk, "search.tasks.index", 7)
    tasks: Queue[Any] = Queue()
    results: Queue[Any] = Queue()
    for entry in (broker.entry(), "STOP"):
        tasks.put(entry)
    worker(tasks, results, Value("f", -1))
    results.put("STOP")
    monitor(results)
    row = Failure.objects.get()
    assert MARKER not in str(row.result)
    assert fail.__name__ in row.result
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM django_q_task AS t WHERE t::text LIKE %s", [f"%{MARKER}%"])
        assert cursor.fetchone() == (0,)
    assert MARKER not in written()
    assert "Failed 'search.tasks.index'" in written()
    (reason,) = failure_reasons()
    assert reason["reason"] not in ("TaskFailed", "ended from outside")


@pytest.mark.django_db
def test_error_of_postgresql_keeps_code_and_constraint() -> None:
    with pytest.raises(IntegrityError) as caught:
        say_row_twice()
    assert safe_traceback(caught.value).endswith("IntegrityError: SQLSTATE 23505 auth_user_username_key auth_user")
    with pytest.raises(DataError) as too_long:
        say_too_much()
    assert safe_traceback(too_long.value).endswith("DataError: SQLSTATE 22001")


@pytest.mark.django_db
def test_samples_of_index_keep_no_quotes() -> None:
    ada = make_user("ada")
    conversation = make_conversation(ada, exchange(("a", "b")))
    error = f"The endpoint answered 400: it does not take the request ({quoted(MARKER)})."
    SourceIndex.objects.update_or_create(
        source_id=source_id(conversation), archive_id=ada.pk, space=active_space(), defaults={"error": error}
    )
    (reason,) = failure_reasons()
    assert reason["reason"] == "The endpoint answered 400: it does not take the request (“…”)."


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("log_format", ["plain", "json"])
def test_web_server_writes_no_addresses_of_requests_to_its_log(tmp_path: Path, log_format: str) -> None:
    written = tmp_path / "log"
    variables = {"LOG_LEVEL": "DEBUG", "LOG_FORMAT": log_format}
    with (
        written.open("wb") as log,
        web_process(variables, command=lambda port: web_command("127.0.0.1", port), log=log) as server,
        httpx2.Client(base_url=server.address, trust_env=False, timeout=60) as client,
    ):
        statuses = [
            client.request(method, path, headers=headers).status_code
            for method, path, headers in (
                ("GET", f"/api/v1/conversations/search?query={MARKER}", {}),
                ("GET", f"/search?q={MARKER}", {}),
                ("GET", f"/no/page/about/{MARKER}", {}),
                ("POST", f"/conversations/{MARKER}?q={MARKER}", {}),
                ("POST", "/login", {"Cookie": f"csrftoken={MARKER}", "Referer": f"http://{MARKER}/"}),
                ("POST", f"/api/v1/tools/{MARKER}", {"Authorization": f"Bearer {MARKER}"}),
                ("GET", f"/search?q=%00{MARKER}", {}),
                ("POST", f"/mcp?query={MARKER}", {}),
            )
        ]
    assert statuses == [401, 302, 404, 404, 403, 401, 400, 401]
    text = written.read_text()
    assert "Application startup complete" in text
    assert MARKER not in text


def test_django_s_notes_about_requests_name_route(written: Callable[[], str]) -> None:
    request = RequestFactory().get(f"/about/{MARKER}", {"q": MARKER})
    log_response("%s: %s", "Not Found", request.path, request=request, response=HttpResponse(status=404))
    request.resolver_match = resolve("/conversations/7")
    log_response("%s: %s", "Server Error", request.path, request=request, response=HttpResponse(status=500))
    text = written()
    assert "Not Found: /(no route)" in text
    assert "Server Error: /conversations/<int:conversation_id>" in text
    assert MARKER not in text


def test_library_logs_quote_no_errors(written: Callable[[], str]) -> None:
    logging.getLogger("some.library").error(ValueError(MARKER))
    logging.getLogger("django.security.SuspiciousFileOperation").error(f"Detected path traversal in '{MARKER}'")
    logging.getLogger("convmemory").warning("Task failed: %s", InvalidInput(f"{MARKER!r} is no date."))

    async def fail() -> None:
        raise ValueError(MARKER)

    async def forget() -> None:
        task = asyncio.ensure_future(fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task
        gc.collect()

    asyncio.run(forget())
    text = written()
    assert "Task exception was never retrieved" in text
    assert "SuspiciousFileOperation" in text
    assert "Task failed: InvalidInput" in text
    assert MARKER not in text


def test_child_process_that_fails_writes_no_quotes(tmp_path: Path) -> None:
    code = (
        "import os; from convmemory.core.processes.child_limits import run_limited\n"
        "run_limited(lambda words: int(words[0]), [os.environ['TEXT']],"
        " memory_mb=1024, timeout_s=60, parent_pid=os.getppid())"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TEXT": MARKER}, capture_output=True)
    assert done.returncode == 1
    assert b"ValueError: (message left out)" in done.stderr
    assert MARKER.encode() not in done.stderr
