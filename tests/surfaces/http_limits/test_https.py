"""HTTPS_ONLY: redirects, HSTS, probes that are let through, and what `check --deploy` sees of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from django.conf import settings as project
from django.test import Client
from pytest_django import Settings

from convmemory.core import checks
from convmemory.core.config import config
from tests.support import asgi_server

pytestmark = pytest.mark.django_db
SEEN = ("security.W004", "security.W008", "security.W012", "security.W016")


@pytest.fixture
def https_only(settings: Settings) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_HSTS_SECONDS = config.hsts_seconds
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")


def deploy_check(**variables: str) -> str:
    command = [sys.executable, "manage.py", "check", "--deploy"]
    environment = {**os.environ, **variables}
    run = subprocess.run(command, cwd=project.BASE_DIR, env=environment, capture_output=True, text=True, timeout=300)
    return run.stdout + run.stderr


@pytest.mark.slow
def test_deploy_check_has_no_issues_with_https_only() -> None:
    plain, https = deploy_check(HTTPS_ONLY="0"), deploy_check(HTTPS_ONLY="1", FORWARDED_ALLOW_IPS="127.0.0.1")
    assert all(name in plain for name in SEEN)
    assert "no issues" in https, https


@pytest.mark.slow
def test_check_sees_that_hsts_is_off() -> None:
    seen = deploy_check(HTTPS_ONLY="1", HSTS_SECONDS="0")
    assert [name for name in SEEN if name in seen] == ["security.W004"]


@pytest.mark.parametrize("name", ["SecurityMiddleware", "XFrameOptionsMiddleware", "CsrfViewMiddleware"])
def test_missing_middleware_is_error(settings: Settings, name: str) -> None:
    assert checks.check_middlewares() == []
    settings.MIDDLEWARE = [path for path in settings.MIDDLEWARE if not path.endswith(name)]
    (error,) = checks.check_middlewares()
    assert name in error.msg


@pytest.mark.parametrize("path", ["/", "/login", "/api/v1/conversations", "/admin/", "/v1/models"])
def test_plain_http_is_redirected(https_only: None, path: str) -> None:
    answer = Client().get(path)
    assert answer.status_code == 301
    assert answer.headers["Location"] == f"https://testserver{path}"
    secure = Client().get(path, headers={"X-Forwarded-Proto": "https"})
    assert not secure.headers.get("Location", "").startswith("https://testserver")
    assert secure.headers["Strict-Transport-Security"] == "max-age=2592000"


@pytest.mark.parametrize("path", ["/health", "/ready", "/api/v1/health", "/api/v1/ready"])
def test_probes_are_not_redirected(https_only: None, path: str) -> None:
    assert Client().get(path).status_code == 200


def test_plain_http_without_https_only_is_not_redirected() -> None:
    answer = Client().get("/login")
    assert answer.status_code == 200
    assert "Strict-Transport-Security" not in answer.headers


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with asgi_server.serve() as address, httpx2.Client(base_url=address, timeout=60, trust_env=False) as http:
        yield http


@pytest.mark.django_db(transaction=True)
def test_mcp_is_not_served_over_plain_http(http: httpx2.Client, https_only: None) -> None:
    plain: Any = http.post("/mcp", json={})
    assert plain.status_code == 403
    assert "HTTPS" in plain.json()["detail"]
    assert http.post("/mcp", json={}, headers={"X-Forwarded-Proto": "https"}).status_code == 401


def test_https_without_named_proxy_is_warned_of(settings: Settings) -> None:
    settings.HTTPS_ONLY, settings.FORWARDED_ALLOW_IPS = True, []
    assert [message.id for message in checks.check_proxy()] == ["convmemory.W001"]
    settings.FORWARDED_ALLOW_IPS = ["127.0.0.1"]
    assert checks.check_proxy() == []
