"""The test run's own surroundings: a data folder and an embedded PostgreSQL apart from the product's.

The server lives under `var/test` with fsync off and ends with the run; runs at the same time share it,
each with a database of its own. With DATABASE_URL that server is used instead. Only servers in threads have a pool.
"""

import gc
import importlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, timedelta
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpcore2
import psutil
import pytest
from _pytest.mark.expression import Expression
from django.conf import settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.db import connection, connections
from django.template import Template
from django.test import TransactionTestCase
from django.test import utils as test_utils
from django.test.utils import setup_databases, teardown_databases
from django.utils import timezone
from hypothesis import settings as hypothesis_settings
from pydantic._internal import _fields
from pytest_django import DjangoDbBlocker
from whitenoise.middleware import WhiteNoiseMiddleware

from convmemory.core import acting
from convmemory.core.postgres import row_security
from convmemory.core.postgres.base import close_pools
from convmemory.embeddings import spaces
from tests.support.remembering import open_with_memory
from tests.support.run_database import empty_tables, migrated_template

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django import Settings

FAST_OPTIONS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "120",
    "shared_buffers": "256MB",  # emptying a table looks through all of them
}

EXAMPLES = {"few": 15, "many": 100, "trials": 400}
"""Of each test of random values: by `make test`, by `make test-rest`, by `make trials`, with `--hypothesis-profile`."""

MARKS = re.compile(r"\bmark\.(\w+)")
PYTESTMARK = re.compile(r"^pytestmark = (?:\[[^]]*\]|.*)", re.MULTILINE)

for profile, examples in EXAMPLES.items():
    # Tests never measure time; and an example that failed is reported, not stored.
    hypothesis_settings.register_profile(profile, max_examples=examples, deadline=None, database=None)
hypothesis_settings.load_profile("few")


def pytest_configure(config: pytest.Config) -> None:
    """Runs after pytest-django has read the settings and before any connection is made."""
    gc.disable()  # until all tests are collected
    _let_python_keep_bytecode()
    setattr(os, "fsync", lambda descriptor: None)  # noqa: B010  # no test's file has to survive a power failure
    httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)  # else each HTTP client reads all certificates
    test_utils.instrumented_test_render = Template._render  # type: ignore[attr-defined]  # no test reads contexts
    setattr(StaticFilesStorage, "url", cache(StaticFilesStorage.url))  # noqa: B010  # some 50 icons a page ask for it
    setattr(_fields, "extract_docstrings_from_cls", lambda cls, **_: {})  # noqa: B010  # a second for texts of SCIM
    PBKDF2PasswordHasher.iterations = 1_000  # of a million: tests that hash for real check who hashes, and when
    own = _use_own_temporary_folder(config)
    test_var = Path(settings.VAR_DIR) / "test"
    test_var.mkdir(parents=True, exist_ok=True)
    if not (test_var / "secret_key").exists():  # a database without it is refused
        (test_var / "secret_key").write_text(settings.SECRET_KEY)
    os.environ["CONVMEMORY_VAR"] = str(test_var)  # for the processes that tests start
    settings.VAR_DIR = test_var
    settings.IMPORT_FOLDER, settings.MEDIA_ROOT = own / "imports", own / "media"
    settings.TEMPORARY_FOLDER = own / "work"
    settings.STATIC_ROOT = test_var / "static"
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    os.environ["BACKUP_FOLDER"] = "off"  # but where a test is about backups
    settings.BACKUP_FOLDER = ""
    os.environ["LANGUAGE"] = "C"  # or argparse looks for the translation of each of its texts in files
    os.environ["EMBEDDING_THREADS"] = "1"  # a second thread costs a seventh more processor time, and no core is idle
    settings.EMBEDDING_THREADS = 1
    settings.SEARCH_MIN_RELEVANCE = settings.RECALL_MIN_RELEVANCE = 0.0  # but where a test is about silence
    settings.TASK_SLICE_S = 3_600.0  # a task that a test runs comes to its end, however slow the machine is
    settings.MEASURES_FLUSH_S = 0.0  # no thread: its connection would outlive a test's transaction
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    database = connections["default"].settings_dict
    database["OPTIONS"].pop("pool", None)
    database["LOGINS"] = {}
    acting.process_acts_as(acting.SCHEMA)  # for the tests' own queries; requests and tasks set their role
    if database["EMBEDDED_PATH"]:
        database["EMBEDDED_PATH"] = test_var / "postgres"
        database["EMBEDDED_OPTIONS"] = FAST_OPTIONS
    _list_static_files_once()
    if not config.getoption("reuse_db"):
        database.setdefault("TEST", {})["NAME"] = f"test_{database['NAME']}_{os.getpid()}"


def may_be_chosen(path: Path, expression: str) -> bool:
    """Return whether a file can have a test that the marks of `-m` choose, as far as the marks in its text say.

    `tests/architecture/test_marks.py` checks that files have no marks from elsewhere.
    """
    text = path.read_text(encoding="utf-8")
    marks = {*MARKS.findall(text), *(["hypothesis"] if "hypothesis" in text else [])}
    of_all = set(MARKS.findall(match[0] if (match := PYTESTMARK.search(text)) else ""))
    asked = frozenset(re.findall(r"\w+", expression))
    return _is_true_of_any(expression, asked & (marks - of_all), asked & of_all)


@cache
def _is_true_of_any(expression: str, some: frozenset[str], of_all: frozenset[str]) -> bool:
    """Evaluate an expression of marks for a test with `of_all` and any of `some`."""
    compiled = Expression.compile(expression)
    subsets = (of_all.union(chosen) for count in range(len(some) + 1) for chosen in combinations(some, count))
    return any(compiled.evaluate(lambda name, /, **_: name in marks) for marks in subsets)  # noqa: B023  # not kept


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of tests of which none is run, unless it is named."""
    if not collection_path.match("test_*.py") or any(arg.partition("::")[0].endswith(".py") for arg in config.args):
        return None
    return None if may_be_chosen(collection_path, config.option.markexpr) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let every second process of a run import the tests from the last to the first, as it collects all of them anyway.

    In a new clone pytest rewrites the assertions of each module, for some 15 s of processor time, and keeps the result:
    two processes in the same order would both rewrite every module.
    """
    if int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 2 == 0:
        return
    tests = Path(__file__).parent
    expression = session.config.option.markexpr
    for path in sorted(tests.rglob("test_*.py"), reverse=True):
        if not may_be_chosen(path, expression):
            continue
        with suppress(Exception):  # the collection reports it
            importlib.import_module(".".join(path.relative_to(tests.parent).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Exempt the program and the tests from garbage collection: looking through them takes a sixth of a run's time."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _let_python_keep_bytecode() -> None:
    """Else the workers of a run and each of some 200 processes that tests start compile the whole program."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def _list_static_files_once() -> None:
    """Else each of some 2,000 clients of tests looks for them in all folders, which takes more than most requests."""
    listed: dict[str, Any] = {}
    plain = WhiteNoiseMiddleware.add_files_from_finders

    def add_listed(self: WhiteNoiseMiddleware) -> None:
        if not listed:
            plain(self)
            listed.update(self.files)
        self.files.update(listed)

    WhiteNoiseMiddleware.add_files_from_finders = add_listed


def _use_own_temporary_folder(config: pytest.Config) -> Path:
    """Erasing a person deletes folders by that person's number, which another run's person may have, too."""
    shared = tempfile.gettempdir()
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", shared)  # where pytest keeps `tmp_path` for a while
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", f"{shared}/data-gym-cache")  # the default
    own = tempfile.mkdtemp(prefix="convmemory-tests-")
    os.environ["TMPDIR"] = tempfile.tempdir = own

    def leave() -> None:
        os.environ["TMPDIR"] = tempfile.tempdir = shared  # the server is stopped after this
        session = config.pluginmanager.get_plugin("session")
        if session is None or not session.testsfailed:  # or there may be pictures of browsers
            shutil.rmtree(own, ignore_errors=True)

    config.add_cleanup(leave)
    return Path(own)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_blocker: DjangoDbBlocker) -> None:
    """Drop the databases of killed runs from the embedded test server, and clone this run's from the template."""
    if not connection.settings_dict["EMBEDDED_PATH"]:
        return
    with django_db_blocker.unblock():
        with connection._nodb_cursor() as cursor:
            cursor.execute(r"SELECT datname FROM pg_database WHERE datname ~ '^(test|making)_.*_\d+$'")
            for (name,) in cursor.fetchall():
                if not psutil.pid_exists(int(name.rsplit("_", 1)[1])):
                    cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        test = connection.settings_dict["TEST"]
        test["TEMPLATE"] = migrated_template()
        test["MIGRATE"] = False  # the template has every table


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None,
    django_db_modify_db_settings: None,
    django_db_keepdb: bool,
    django_db_createdb: bool,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[None]:
    """From here on requests and tasks run in the roles of the product, in the one connection that a test has.

    pytest-django's own fixture makes no database if no chosen test has the mark `django_db`: those of modules that
    fill one for all their tests do not.
    """
    with django_db_blocker.unblock():
        databases = setup_databases(
            verbosity=0,
            interactive=False,
            keepdb=django_db_keepdb and not django_db_createdb,
            serialized_aliases=set(),
        )
        row_security.create_roles()
        row_security.apply_policies()
    connection.settings_dict["ASSUME_ROLES"] = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spaces, "open_local", open_with_memory)
        patch.setattr("search.searching.BUDGET_S", 3_600.0)  # a search reads all of its archives on a slow machine, too
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: empty_tables())
        yield
    connection.settings_dict["ASSUME_ROLES"] = False
    close_pools()
    if not django_db_keepdb:
        with django_db_blocker.unblock():
            teardown_databases(databases, verbosity=0)


@pytest.fixture
def from_noon_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test begins at noon: neither its day nor its hour ends before it does."""
    noon = timezone.localtime().replace(hour=12, minute=0, second=0, microsecond=0).astimezone(UTC)
    started = time.monotonic()
    monkeypatch.setattr(timezone, "now", lambda: noon + timedelta(seconds=time.monotonic() - started))


@pytest.fixture
def owner() -> "User":
    """Return the user whose rows a test uses."""
    from tests.factories import make_user

    return make_user()


@pytest.fixture
def documents_here(monkeypatch: pytest.MonkeyPatch, settings: "Settings", tmp_path: Path) -> None:
    """Uploaded documents lie in a folder of the test and are converted in its own process."""
    from convmemory.documents import processing
    from tests.support.documents import convert_here

    settings.MEDIA_ROOT = tmp_path / "media"
    monkeypatch.setattr(processing, "run_child", convert_here)
