"""The test run's own surroundings: a data folder and an embedded PostgreSQL apart from the product's.

The server lives under `var/test` with fsync off and ends with the run; runs at the same time share it,
each with a database of its own. With DATABASE_URL that server is used instead. No pool: dropping the
test database waits for nobody.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from django.conf import settings
from django.db import connection, connections
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker

from convmemory.core import acting
from convmemory.core.postgres import row_security

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django import Settings

FAST_OPTIONS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "120"}


def pytest_configure(config: pytest.Config) -> None:
    """Runs after pytest-django has read the settings and before any connection is made."""
    hypothesis_settings.register_profile("no deadline", deadline=None)  # tests never measure time
    hypothesis_settings.load_profile("no deadline")
    test_var = Path(settings.VAR_DIR) / "test"
    test_var.mkdir(parents=True, exist_ok=True)
    os.environ["CONVMEMORY_VAR"] = str(test_var)  # for the processes that tests start
    settings.VAR_DIR = test_var
    settings.IMPORT_FOLDER = test_var / "imports"
    settings.MEDIA_ROOT = test_var / "media"
    settings.STATIC_ROOT = test_var / "static"
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    settings.SEARCH_MIN_RELEVANCE = settings.RECALL_MIN_RELEVANCE = 0.0  # but where a test is about silence
    settings.MEASURES_FLUSH_S = 0.0  # no thread: its connection would outlive a test's transaction
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    database = connections["default"].settings_dict
    database["OPTIONS"].pop("pool", None)
    database["LOGINS"] = {}
    acting.process_acts_as(acting.SCHEMA)  # what tests do themselves; requests and tasks say as whom they act
    if database["EMBEDDED_PATH"]:
        database["EMBEDDED_PATH"] = test_var / "postgres"
        database["EMBEDDED_OPTIONS"] = FAST_OPTIONS
    if not config.getoption("reuse_db"):
        database.setdefault("TEST", {})["NAME"] = f"test_{database['NAME']}_{os.getpid()}"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """Drops the databases that killed runs left on the embedded test server."""
    if not connection.settings_dict["EMBEDDED_PATH"]:
        return
    with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:
        cursor.execute(r"SELECT datname FROM pg_database WHERE datname ~ '^test_.*_\d+$'")
        for (name,) in cursor.fetchall():
            if not psutil.pid_exists(int(name.rsplit("_", 1)[1])):
                cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """From here on requests and tasks run in the roles of the product, in the one connection that a test has."""
    with django_db_blocker.unblock():
        row_security.create_roles()
        row_security.apply_policies()
    connection.settings_dict["ASSUME_ROLES"] = True
    yield
    connection.settings_dict["ASSUME_ROLES"] = False


@pytest.fixture
def owner() -> "User":
    """Somebody whose rows a test is about."""
    from tests.factories import make_user

    return make_user()


@pytest.fixture
def documents_here(monkeypatch: pytest.MonkeyPatch, settings: "Settings", tmp_path: Path) -> None:
    """Uploaded documents lie in a folder of the test and are converted in its own process."""
    from convmemory.documents import processing
    from tests.support.documents import convert_here

    settings.MEDIA_ROOT = tmp_path / "media"
    monkeypatch.setattr(processing, "run_child", convert_here)
