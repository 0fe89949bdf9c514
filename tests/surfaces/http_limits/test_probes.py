"""Health checks by the address of a machine, which no setting lists."""

from collections.abc import Iterator

import httpx2
import pytest

from convmemory.http_limits.refusals import HEALTH_PATHS
from tests.support import asgi_server

pytestmark = pytest.mark.django_db(transaction=True)
BY_ADDRESS = {"Host": "10.1.2.3:8000"}


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with asgi_server.serve() as address, httpx2.Client(base_url=address, timeout=60, trust_env=False) as http:
        yield http


@pytest.mark.parametrize("path", sorted(HEALTH_PATHS))
def test_probes_are_answered_by_any_name(http: httpx2.Client, path: str) -> None:
    assert http.get(path, headers=BY_ADDRESS).json()["status"] == "ok"


def test_other_paths_by_disallowed_host_get_400(http: httpx2.Client) -> None:
    for path in ("/login", "/health/", "/api/v1/conversations"):
        assert http.get(path, headers=BY_ADDRESS).status_code == 400, path
