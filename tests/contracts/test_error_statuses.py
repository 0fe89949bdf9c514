"""Every error that is raised on purpose has one status and its own sentence, on pages and in the API alike."""

import errno
import importlib
import io
import logging
import re
from collections.abc import Iterator

import psycopg
import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.db import InterfaceError, InternalError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from django.utils.html import escape
from ninja import NinjaAPI
from pytest_django import Settings

from convmemory import problems
from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.core.errors import (
    ConvMemoryError,
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    QuotaUsedUp,
    StorageFull,
)
from convmemory.core.logs import PlainFormatter
from convmemory.core.postgres.failures import DatabaseUnreachable
from convmemory.urls import urlpatterns as product_urls

SENTENCE = "This is the sentence of the error: do this."
ADDRESSES = {"page": "/raising/page", "async page": "/raising/async", "api": "/api/raising/route"}
SURFACES: tuple[tuple[str, dict[str, str]], ...] = (
    ("page", {}),
    ("page", {"HX-Request": "true"}),
    ("async page", {}),
    ("api", {}),
)

raised: list[Exception] = []
raising_api = NinjaAPI(urls_namespace="raising")
problems.register(raising_api)


@signed_in
def raising_page(request: PageRequest) -> HttpResponse:
    raise raised[0]


async def raising_async(request: HttpRequest) -> HttpResponse:
    raise raised[0]


@raising_api.get("/route")
def raising_route(request: HttpRequest) -> None:
    raise raised[0]


urlpatterns = [
    path("raising/page", raising_page),
    path("raising/async", raising_async),
    path("api/raising/", raising_api.urls),
    *product_urls,
]


@pytest.fixture
def browser(owner: User, settings: Settings) -> Iterator[Client]:
    settings.ROOT_URLCONF = __name__
    client = Client()
    client.force_login(owner)
    yield client
    raised.clear()


def answer_of(browser: Client, error: Exception, surface: str, headers: dict[str, str]) -> tuple[int, str]:
    raised[:] = [error]
    response = browser.get(ADDRESSES[surface], headers=headers)
    return response.status_code, response.content.decode()


def kinds() -> list[type[ConvMemoryError]]:
    """Every subclass, those of modules that nothing has imported yet included."""
    for folder in ("convmemory", "search", "summaries", "memory"):
        for file in (django_settings.BASE_DIR / folder).rglob("*.py"):
            if re.search(r"^class \w+\(.*(?:ConvMemoryError|InvalidInput)\b", file.read_text(), re.MULTILINE):
                importlib.import_module(".".join(file.relative_to(django_settings.BASE_DIR).with_suffix("").parts))
    found = [ConvMemoryError]
    for kind in found:
        found += [
            each for each in kind.__subclasses__() if each not in found and not each.__module__.startswith("test")
        ]
    return found


def made(kind: type[ConvMemoryError]) -> ConvMemoryError:
    """An error of the kind, whatever its constructor asks for."""
    error = kind.__new__(kind)
    Exception.__init__(error, SENTENCE)
    return error


@pytest.mark.django_db
def test_every_domain_error_has_one_status_and_its_sentence_on_every_surface(browser: Client) -> None:
    found = kinds()
    assert len(found) > 30
    for kind in found:
        answers = [answer_of(browser, made(kind), *surface) for surface in SURFACES]
        statuses = {status for status, _ in answers}
        assert len(statuses) == 1, (kind, statuses)
        assert statuses.isdisjoint({200, 500}), (kind, statuses)
        if issubclass(kind, DatabaseUnavailable):  # it quotes paths and PostgreSQL's log, for the operator
            assert not any(SENTENCE in text for _, text in answers), kind
        elif not issubclass(kind, NotFound):  # a page says the same of what is unknown and of what is another's
            assert all(str(made(kind)) in text for _, text in answers), kind


@pytest.mark.django_db
def test_refused_part_of_page_gets_sentence_without_operators_words(browser: Client) -> None:
    raised[:] = [StorageFull("There is no room left (MAX_STORED_MB): empty the trash.")]
    response = browser.get(ADDRESSES["page"], headers={"HX-Request": "true"})
    assert response.json()["detail"].startswith("There is no room left: empty the trash.")
    assert "MAX_STORED_MB" not in response.json()["detail"]


@pytest.mark.django_db
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_is_507_on_every_surface(browser: Client, number: int) -> None:
    for surface in SURFACES:
        status, text = answer_of(browser, OSError(number, "full", "/secret/place"), *surface)
        assert status == 507
        assert escape(problems.DISK_FULL) in text or problems.DISK_FULL in text
        assert "/secret" not in text


@pytest.mark.django_db
def test_full_disk_of_database_is_507_on_every_surface(browser: Client) -> None:
    for surface in SURFACES:
        error = OperationalError("could not extend file")
        error.__cause__ = psycopg.errors.DiskFull("could not extend file")
        assert answer_of(browser, error, *surface)[0] == 507


def caused_by(cause: psycopg.Error) -> InternalError:
    error = InternalError("as Django wraps it")
    error.__cause__ = cause
    return error


@pytest.mark.django_db
@pytest.mark.parametrize(
    "error",
    [
        OperationalError("the connection is lost"),
        InterfaceError("the connection is closed"),
        psycopg.OperationalError("the connection is lost"),
        caused_by(psycopg.errors.ReadOnlySqlTransaction("the server became a standby")),
        caused_by(psycopg.errors.IdleInTransactionSessionTimeout("the server ended it")),
        caused_by(psycopg.errors.FeatureNotSupported("cached plan must not change result type")),
        DatabaseUnreachable("Nothing listens there."),
        DatabaseUnavailable("It does not start."),
    ],
    ids=lambda error: type(error.__cause__ or error).__name__,
)
def test_silent_database_is_503_with_retry_after_on_every_surface(browser: Client, error: Exception) -> None:
    raised[:] = [error]
    for surface, headers in SURFACES:
        response = browser.get(ADDRESSES[surface], headers=headers)
        assert (response.status_code, response.headers.get("Retry-After")) == (503, "5")
        assert not any(sentence in response.content.decode() for sentence in ("Nothing listens", "does not start"))


@pytest.mark.django_db
def test_other_errors_stay_errors_inside_server(browser: Client) -> None:
    browser.raise_request_exception = False
    for error in (OSError(errno.EACCES, "no"), KeyError("x")):
        assert {answer_of(browser, error, *surface)[0] for surface in SURFACES} == {500}


@pytest.mark.django_db
def test_unexpected_error_is_in_log_with_its_stack_under_id_that_answer_names(browser: Client) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(PlainFormatter())
    logging.getLogger().addHandler(handler)
    browser.raise_request_exception = False
    raised[:] = [ValueError("my private text")]
    try:
        response = browser.get(ADDRESSES["api"], headers={"X-Request-ID": "trace-0815"})
    finally:
        logging.getLogger().removeHandler(handler)
    assert "request's id, trace-0815." in response.json()["detail"]
    assert "[request_id=trace-0815]" in written.getvalue()
    assert "in raising_route" in written.getvalue()
    assert "ValueError: (message left out)" in written.getvalue()
    assert "private" not in written.getvalue()


@pytest.mark.parametrize(("kind", "status"), [(NotFound, 404), (InvalidInput, 422), (QuotaUsedUp, 429)])
def test_status_is_that_of_nearest_class(kind: type[ConvMemoryError], status: int) -> None:
    assert problems.status_of(made(type("Special", (kind,), {}))) == status
