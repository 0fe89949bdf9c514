"""Passwords over real HTTP and in forms: pauses, a bounded pool, and what may be a password."""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client, override_settings
from pytest_django import Settings

from convmemory.ops.runtime.instance import create_admin, web_command
from convmemory.sign_in import hashing
from convmemory.sign_in.attempts import PAIR
from convmemory.sign_in.hashing import HashingBusy, HashingPool
from convmemory.sign_in.models import PasswordFailures
from tests.factories import make_user
from tests.support import asgi_server
from tests.support.api import signed_in
from tests.support.sign_in_pauses import PROLONGED_S, prolong_pauses
from tests.support.web_process import web_process

pytestmark = pytest.mark.django_db

POOLED = ["convmemory.sign_in.hashing.PooledHasher"]
RIGHT, WRONG = "correct horse", "battery staple"
TRIES = PAIR.free + 1

Form = Callable[[Client, str], Any]
FORMS: dict[str, Form] = {
    "login": lambda client, password: client.post("/login", {"username": "ada", "password": password}),
    "change": lambda client, password: client.post(
        "/settings/password", {"old_password": password, "new_password1": "a quick fox", "new_password2": "a quick fox"}
    ),
    "delete": lambda client, password: client.post("/settings/account/delete", {"confirmation": password}),
    "confirm": lambda client, password: client.post("/settings/confirm", {"password": password}),
}
SIGNED_IN = ("change", "delete", "confirm")


@pytest.fixture
def ada() -> User:
    user = make_user("ada")
    User.objects.filter(pk=user.pk).update(is_staff=True)
    return user


def client_for(form: str, user: User) -> Client:
    client = Client()
    if form in SIGNED_IN:
        client.force_login(user)
    return client


@pytest.mark.parametrize("form", FORMS)
def test_wrong_passwords_are_followed_by_pause(ada: User, form: str) -> None:
    client, post = client_for(form, ada), FORMS[form]
    answers = [post(client, WRONG) for _ in range(TRIES)]
    assert {answer.status_code for answer in answers} <= {200, 422}
    prolong_pauses()
    paused = post(client, RIGHT)
    assert paused.status_code == 429
    wait_s = int(paused.headers["Retry-After"])
    assert 0 < wait_s <= PROLONGED_S + 1
    assert f"Too many wrong passwords. Wait {wait_s} seconds" in paused.content.decode()
    ada.refresh_from_db()
    assert ada.check_password(RIGHT)


@pytest.mark.parametrize("form", FORMS)
def test_full_hashing_queue_gets_503_without_counting_failure(
    ada: User, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise HashingBusy

    client, post = client_for(form, ada), FORMS[form]
    with monkeypatch.context() as patch:
        patch.setattr(User, "check_password", busy)
        for _ in range(TRIES + 1):
            answer = post(client, RIGHT)
            assert answer.status_code == 503
            assert answer.headers["Retry-After"] == str(hashing.RETRY_AFTER_S)
    assert post(client, RIGHT).status_code in (200, 302)


def test_unknown_and_known_names_get_same_answers(ada: User) -> None:
    texts = []
    for name in ("ada", "nobody"):
        client = Client(REMOTE_ADDR=f"192.0.2.{len(name)}")
        answers = [client.post("/login", {"username": name, "password": WRONG}) for _ in range(TRIES)]
        prolong_pauses()
        answers.append(client.post("/login", {"username": name, "password": WRONG}))
        texts.append(
            [
                (a.status_code, re.sub(r'(value|data-options)="[^"]*"|\d+ seconds', "", a.content.decode()))
                for a in answers
            ]
        )
    assert texts[0] == texts[1]
    assert texts[0][-1][0] == 429


def test_unknown_name_costs_hash_too(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.PASSWORD_HASHERS = POOLED
    hashes: list[object] = []

    def counted(pool: HashingPool, function: Callable[[], str]) -> str:
        hashes.append(pool)
        return function()

    monkeypatch.setattr(HashingPool, "run", counted)
    Client().post("/login", {"username": "nobody", "password": WRONG})
    assert len(hashes) == 1


def test_administrations_form_for_new_password_is_one_with_pauses(ada: User) -> None:
    client = signed_in(ada)
    for answer in (
        client.get("/admin/password_change/"),
        client.post("/admin/password_change/", {"old_password": "x"}),
    ):
        assert answer.headers["Location"] == "/settings/password"


@pytest.mark.parametrize("password", ["short one", "4815162342108", "password123", "adalovelace"])
def test_weak_passwords_are_refused(password: str) -> None:
    with pytest.raises(ValidationError):
        validate_password(password, User(username="adalovelace"))


def test_first_administrators_password_is_strong_enough(tmp_path: Any) -> None:
    password = create_admin(tmp_path)
    assert password
    validate_password(password, User.objects.get())


def test_pooled_hashes_are_compatible_with_django(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    with_django = make_password(RIGHT)
    settings.PASSWORD_HASHERS = POOLED
    assert check_password(RIGHT, with_django)
    pooled = make_password(RIGHT)
    assert not check_password(WRONG, pooled)
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    assert check_password(RIGHT, pooled)


def test_more_than_places_are_refused_at_once() -> None:
    pool, go, running = HashingPool(threads=1, places=3), threading.Event(), []

    def hash_slowly() -> None:
        running.append(threading.current_thread().name)
        assert go.wait(20)

    with ThreadPoolExecutor(3) as people:
        waiting = [people.submit(pool.run, hash_slowly) for _ in range(3)]
        _until(lambda: len(running) == 1 and pool._places._value == 0)
        with pytest.raises(HashingBusy):
            pool.run(hash_slowly)
        assert len(running) == 1, "one thread hashes, the others wait"
        go.set()
        for future in waiting:
            future.result(20)
    assert len(running) == 3
    pool.run(lambda: None)


def test_place_is_free_again_after_error() -> None:
    pool = HashingPool(threads=1, places=1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            pool.run(lambda: 1 // 0)


def test_hashing_has_low_priority() -> None:
    pool = HashingPool(threads=1, places=1)
    nice = pool.run(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
    assert nice == max(hashing.NICENESS, os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))


@pytest.mark.django_db(transaction=True)
def test_database_connection_is_released_while_hashing() -> None:
    User.objects.exists()
    seen: list[object] = []
    HashingPool(threads=1, places=1).run(lambda: seen.append(1))
    assert connection.connection is None


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def address() -> Iterator[str]:
    with asgi_server.serve() as address:
        yield address


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_most_of_many_concurrent_passwords_are_refused_unhashed(address: str, settings: Settings) -> None:
    """160 wrong passwords at once: those of an address wait in its line, a few are hashed, the rest are refused."""
    settings.PASSWORD_HASHERS = POOLED
    make_user("ada")
    with httpx2.Client(base_url=address, timeout=60, trust_env=False) as http:
        token = re.search('name="csrfmiddlewaretoken" value="([^"]+)"', http.get("/login").text)
        assert token
        cookies = {"csrftoken": http.cookies["csrftoken"]}

    def guess(number: int) -> tuple[int, str]:
        form = {"username": "ada", "password": f"{WRONG} {number}", "csrfmiddlewaretoken": token[1]}
        # Without `verify`, each client would read the certificates of all authorities (23 ms).
        with httpx2.Client(base_url=address, timeout=60, trust_env=False, cookies=cookies, verify=False) as http:
            answer = http.post("/login", data=form)
        return answer.status_code, answer.headers.get("Retry-After", "")

    with ThreadPoolExecutor(40) as people:
        answers = list(people.map(guess, range(160)))
    judged = [status for status, _ in answers if status == 200]
    refused = [(status, after) for status, after in answers if status != 200]
    assert 1 <= len(judged) <= PAIR.free + 1 + 10, "the free ones, and one after each pause"
    assert {status for status, _ in refused} <= {429, 503}
    assert all(after for _, after in refused)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("proxies", "addresses"), [("", 1), ("127.0.0.1", 2), ("10.0.0.0/8", 1)])
def test_only_configured_proxies_name_address_of_wrong_password(ada: User, proxies: str, addresses: int) -> None:
    def start(port: int) -> list[str]:
        with override_settings(FORWARDED_ALLOW_IPS=[proxies] if proxies else []):
            return web_command("127.0.0.1", port)

    with (
        web_process({"FORWARDED_ALLOW_IPS": proxies}, command=start) as server,
        httpx2.Client(base_url=server.address, trust_env=False, timeout=60) as client,
    ):
        for claimed in ("192.0.2.1", "192.0.2.2"):
            page = client.get("/login")
            token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
            assert token
            form = {"csrfmiddlewaretoken": token[1], "username": "ada", "password": WRONG}
            assert client.post("/login", data=form, headers={"X-Forwarded-For": claimed}).status_code == 200
    assert PasswordFailures.objects.count() == 1 + 2 * addresses, "by name, by address, by both"
