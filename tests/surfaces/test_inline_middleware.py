"""Django's middleware under ASGI, where its hooks run in the event loop: forms, sessions, messages, static files."""

import re
from collections.abc import Iterator

import httpx2
import pytest

from tests.factories import make_user
from tests.support.patience import ANSWER_S
from tests.support.site import running_site

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')
CREDENTIALS = {"username": "ada", "password": "correct horse"}
MORE_THAN_A_COOKIE_HOLDS = 40


@pytest.fixture
def browser() -> Iterator[httpx2.Client]:
    """Keeps cookies, follows no redirects."""
    make_user("ada")
    with running_site() as address, httpx2.Client(base_url=address, timeout=ANSWER_S, trust_env=False) as client:
        yield client


def token_on(browser: httpx2.Client, path: str) -> dict[str, str]:
    found = TOKEN.search(browser.get(path).text)
    assert found
    return {"csrfmiddlewaretoken": found[1]}


def sign_in(browser: httpx2.Client) -> None:
    assert browser.post("/login", data=CREDENTIALS | token_on(browser, "/login")).status_code == 302


def test_form_needs_its_token_and_session_stays(browser: httpx2.Client) -> None:
    assert browser.post("/login", data=CREDENTIALS).status_code == 403
    assert browser.get("/settings/keys").status_code == 302
    sign_in(browser)
    assert browser.get("/settings/keys").status_code == 200


def test_messages_that_cookie_cannot_hold_are_kept_in_session(browser: httpx2.Client) -> None:
    sign_in(browser)
    token = token_on(browser, "/agents/new")
    for number in range(MORE_THAN_A_COOKIE_HOLDS):
        form = {"name": f"Agent number {number} of a good many"}
        assert browser.post("/agents/new", data=form | token).status_code == 302
    assert browser.get("/agents").text.count("is saved.") == MORE_THAN_A_COOKIE_HOLDS
    assert "is saved." not in browser.get("/agents").text


def test_every_answer_carries_headers(browser: httpx2.Client) -> None:
    for path, status in (("/static/css/tokens.css", 200), ("/login", 200), ("/nothing", 404)):
        answer = browser.get(path)
        assert answer.status_code == status, path
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Request-ID"]
