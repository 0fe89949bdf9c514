"""Addresses that agents may have the server fetch: by spelling, host name, user, and after a change of DNS."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import httpcore2
import pytest
from django.contrib.auth.models import Group, Permission, User
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.chat.addresses import Reach, require_allowed
from convmemory.chat.agents import create_agent, options_of
from convmemory.chat.models import Agent
from convmemory.chat.pinned import PublicBackend
from convmemory.core.errors import AddressRefused, InvalidInput
from tests.factories import make_user
from tests.support.chat_server import ChatServer, Script
from tests.support.chatting import Talker
from tests.support.site import running_site

PRIVATE = (
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]", "169.254.169.254", "2852039166", "[fe80::1]", "[fd00:ec2::254]", "10.0.0.7", "172.16.0.1",
    "192.168.1.1", "100.64.0.1", "0.0.0.0", "0", "[::]", "224.0.0.1", "[ff02::1]", "255.255.255.255", "[fec0::1]",
    "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "localhost", "LocalHost", "localhost.", "db.localhost", "[::127.0.0.1]",
)  # fmt: skip
PUBLIC = ("93.184.216.34", "[2606:4700:4700::1111]", "[64:ff9b::5db8:d822]", "models.example", "1.1.1.1")


def grant(user: User) -> None:
    permission = Permission.objects.get(content_type__app_label="chat", codename="use_private_address")
    group = Group.objects.create(name="operators")
    group.permissions.add(permission)
    user.groups.add(group)


def staff(*, superuser: bool = False) -> User:
    user = make_user()
    user.is_staff, user.is_superuser = True, superuser
    user.save()
    return user


@pytest.mark.django_db
@pytest.mark.parametrize("host", PRIVATE)
def test_staff_cannot_name_private_addresses(host: str) -> None:
    user = staff()
    with pytest.raises(InvalidInput, match="private network"):
        create_agent(caller=Caller.of(user), values={"name": "L", "base_url": f"http://{host}:8000/v1", "model": "m"})
    assert not Agent.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("host", [*PUBLIC, "unresolved.example"])
def test_staff_name_public_addresses_that_are_checked_again_when_used(host: str) -> None:
    user = staff()
    agent = create_agent(caller=Caller.of(user), values={"name": "L", "base_url": f"https://{host}/v1", "model": "m"})
    assert options_of(agent, caller=Caller.of(user)).endpoint.is_public_only


@pytest.mark.django_db
@pytest.mark.parametrize("host", PRIVATE)
def test_superuser_and_user_with_permission_may_name_any_address(host: str) -> None:
    assert require_allowed(f"http://{host}:8000/v1", caller=Caller.of(staff(superuser=True))) is Reach.ANY
    for user in (staff(), make_user()):
        user.groups.clear()
        Group.objects.all().delete()
        grant(user)
        assert require_allowed(f"http://{host}:8000/v1", caller=Caller.of(user)) is Reach.ANY


@pytest.mark.django_db
def test_operators_list_opens_single_hosts_and_its_star_public_ones(settings: Settings) -> None:
    user = make_user()
    settings.CHAT_ALLOWED_HOSTS = ["127.0.0.1", "Models.example", "[::1]"]
    for host in ("127.0.0.1", "models.example", "[::1]"):
        assert require_allowed(f"http://{host}/v1", caller=Caller.of(user)) is Reach.ANY
    with pytest.raises(InvalidInput, match="CHAT_ALLOWED_HOSTS"):
        require_allowed("http://127.0.0.2/v1", caller=Caller.of(user))
    settings.CHAT_ALLOWED_HOSTS = ["*"]
    assert require_allowed("http://models.example/v1", caller=Caller.of(user)) is Reach.PUBLIC
    with pytest.raises(InvalidInput, match="private network"):
        require_allowed("http://169.254.169.254/v1", caller=Caller.of(user))


@pytest.mark.django_db
@pytest.mark.parametrize(
    "address",
    [
        "http://allowed.example\\@127.0.0.1/v1", "http://①②⑦.⓪.⓪.①/v1", "http://allowed.example\t.evil/v1",
        "http://allowed.example /v1", "http://ada:hunter2@allowed.example/v1", "http://ada:hunter2@h:port/v1",
    ],
)  # fmt: skip
def test_addresses_that_are_read_in_two_ways_are_refused(address: str, settings: Settings) -> None:
    settings.CHAT_ALLOWED_HOSTS = ["allowed.example", "*"]
    with pytest.raises(InvalidInput) as caught:
        create_agent(caller=Caller.of(make_user()), values={"name": "L", "base_url": address, "model": "m"})
    assert "hunter2" not in str(caught.value)


class Recorder(httpcore2.AsyncNetworkBackend):
    """Notes where connections would have gone."""

    def __init__(self, *silent: str) -> None:
        self.asked: list[str] = []
        self.silent = silent

    async def connect_tcp(self, host: str, *_: Any, **__: Any) -> Any:
        self.asked.append(host)
        if host in self.silent:
            raise httpcore2.ConnectError("no answer")
        return httpcore2.AsyncMockStream([])


def connect(host: str, *silent: str) -> list[str]:
    """Return the addresses that a connection to `host` tries."""
    backend = PublicBackend()
    backend._inner = recorder = Recorder(*silent)
    try:
        asyncio.run(backend.connect_tcp(host, 80))
    finally:
        assert host not in recorder.asked
    return recorder.asked


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """Return a dict of DNS answers by host name, given one after the other; the last one stays."""
    answers: dict[str, list[list[str]]] = {}
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host not in answers:
            return real(host, port, *args, **kwargs)
        found = answers[host].pop(0) if len(answers[host]) > 1 else answers[host][0]
        return [entry for address in found for entry in real(address, port, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return answers


def test_name_that_changes_after_check_leads_nowhere_else(names: dict[str, list[list[str]]]) -> None:
    names["rebinding.example"] = [["93.184.216.34"], ["127.0.0.1"]]
    assert connect("rebinding.example") == ["93.184.216.34"]
    with pytest.raises(AddressRefused):
        connect("rebinding.example")


@pytest.mark.parametrize("inside", ["127.0.0.1", "169.254.169.254", "::1", "fe80::1", "::ffff:10.0.0.1", "0.0.0.0"])
def test_name_with_one_address_inside_is_refused(names: dict[str, list[list[str]]], inside: str) -> None:
    names["mixed.example"] = [["93.184.216.34", inside]]
    with pytest.raises(AddressRefused, match=r"mixed\.example"):
        connect("mixed.example")


def test_next_address_is_tried_where_one_is_silent(names: dict[str, list[list[str]]]) -> None:
    names["two.example"] = [["93.184.216.34", "1.1.1.1"]]
    assert connect("two.example", "93.184.216.34") == ["93.184.216.34", "1.1.1.1"]
    with pytest.raises(httpcore2.ConnectError):
        connect("two.example", "93.184.216.34", "1.1.1.1")


@pytest.fixture
def talker(endpoint: ChatServer) -> Iterator[Talker]:
    with running_site() as address:
        made = Talker(address, staff())
        yield made
        made.close()


def last_error(talker: Talker, **values: Any) -> str:
    number = talker.new_conversation()
    agent = talker.post("/agents", name="L", model="m", **values).json()["id"]
    talker.ask(number, "my secret question", agent_id=agent)
    return str(talker.last_reply(number)["error"])


@pytest.mark.django_db(transaction=True)
def test_host_name_with_private_address_gets_no_request(
    talker: Talker, endpoint: ChatServer, names: dict[str, list[list[str]]]
) -> None:
    names["inside.example"] = [["127.0.0.1"]]
    address = endpoint.url.replace("127.0.0.1", "inside.example")
    assert "private network" in last_error(talker, base_url=address, api_key=endpoint.key)
    assert endpoint.requests == []


@pytest.mark.django_db(transaction=True)
def test_redirect_is_not_followed(talker: Talker, endpoint: ChatServer, settings: Settings) -> None:
    settings.CHAT_ALLOWED_HOSTS = ["127.0.0.1"]
    for status in (302, 307):
        endpoint.scripts.append(Script(status=status, headers={"location": endpoint.url + "/chat/completions"}))
        error = last_error(talker, base_url=endpoint.url, api_key=endpoint.key)
        assert str(status) in error
        assert len(endpoint.requests) == 1
        Agent.objects.all().delete()
        endpoint.requests.clear()
