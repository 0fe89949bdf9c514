"""Agents over the API and on the pages: every value checked, keys never shown, foreign agents not found."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.chat.agents import change_agent, create_agent, options_of
from convmemory.chat.models import Agent
from convmemory.core.encryption import decrypt
from convmemory.core.errors import InvalidInput, NoEndpoint
from tests.factories import make_user
from tests.support.api import Api, problem_of, signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff() -> User:
    """Return a member of staff who may also name addresses of this machine."""
    user = make_user()
    user.is_staff = True
    user.save()
    grant(user, "chat.use_private_address")
    return user


def grant(user: User, name: str) -> None:
    app, codename = name.split(".")
    user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))


def test_agent_is_made_read_changed_and_deleted(api: Api) -> None:
    created = api.send("POST", "/agents", {"name": "Baker", "tools": ["ConversationSearch"], "temperature": 0.5})
    assert created.status_code == 201
    number = created.json()["id"]
    changed = api.send("PATCH", f"/agents/{number}", {"system_prompt": "You bake.", "temperature": None}).json()
    assert (changed["name"], changed["system_prompt"], changed["temperature"]) == ("Baker", "You bake.", None)
    assert changed["tools"] == ["ConversationSearch"]
    assert api.get("/agents").json()["results"] == [changed]
    assert api.get(f"/agents/{number}").json() == changed
    assert api.send("DELETE", f"/agents/{number}", "").status_code == 204
    assert not Agent.objects.exists()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"name": " "}, "needs a name"),
        ({"context_strategies": ["token_budget", "magic"]}, "'magic'"),
        ({"context_strategies": ["magic"]}, "sliding_window"),
        ({"context_strategy": "magic"}, "summary_boundary"),
        ({"tools": ["launch_rocket"]}, "ConversationSearch"),
        ({"temperature": 3}, "0 to 2"),
        ({"context_window": 10}, "1,024"),
        ({"reply_tokens": 0}, "at least 1"),
        ({"base_url": "ftp://example.org"}, "http"),
        ({"base_url": "http://user:password@example.org/v1", "model": "m"}, "password"),
        ({"base_url": "http://127.0.0.1:11434/v1", "model": "m"}, "CHAT_ALLOWED_HOSTS"),
        ({"base_url": "file:///etc/passwd"}, "http"),
    ],
)
def test_invalid_agent_values_are_refused_with_allowed_ones(api: Api, values: dict[str, Any], told: str) -> None:
    detail = problem_of(api.send("POST", "/agents", {"name": "Baker", **values}), 422)
    assert told in detail
    assert not Agent.objects.exists()


def test_single_strategy_is_stored_as_list(api: Api) -> None:
    for key, name in (("context_strategy", "A"), ("context_strategies", "B")):
        created = api.send("POST", "/agents", {"name": name, key: "sliding_window"}).json()
        assert created["context_strategies"] == ["sliding_window"]


def test_two_agents_of_one_owner_have_two_names(api: Api) -> None:
    api.send("POST", "/agents", {"name": "Baker"})
    assert "already" in problem_of(api.send("POST", "/agents", {"name": "Baker"}), 422)


def test_key_is_stored_encrypted_and_never_shown(staff: User) -> None:
    api = Api(staff)
    values = {"name": "Local", "base_url": "http://127.0.0.1:11434/v1/", "model": "m", "api_key": "sk-very-secret"}
    created = api.send("POST", "/agents", values)
    assert created.json()["has_key"]
    assert created.json()["base_url"] == "http://127.0.0.1:11434/v1"
    agent = Agent.objects.get()
    assert "very-secret" not in created.content.decode() + agent.api_key_encrypted
    assert decrypt(agent.api_key_encrypted) == "sk-very-secret"
    client = signed_in(staff)
    for path in (f"/agents/{agent.pk}", "/agents"):
        assert b"very-secret" not in client.get(path).content
    assert options_of(agent, caller=Caller.of(staff)).endpoint.api_key == "sk-very-secret"


ELSEWHERE = ("https://127.0.0.1:1/v1", "http://127.0.0.1:2/v1", "http://127.0.0.2:1/v1", "")
SAME_SERVER = ("http://127.0.0.1:1/v2", "http://127.0.0.1:1", "HTTP://127.0.0.1:1/v1")


@pytest.mark.parametrize("address", [*ELSEWHERE, *SAME_SERVER])
def test_key_stays_with_server_that_it_was_given_for(staff: User, address: str) -> None:
    values = {"name": "Local", "base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key": "secret"}
    agent = create_agent(caller=Caller.of(staff), values=values)
    kept = change_agent(caller=Caller.of(staff), agent_id=agent.pk, values={"name": "Renamed"})
    assert (kept.has_key, kept.key_was_dropped) == (True, False)
    moved = Api(staff).send("PATCH", f"/agents/{agent.pk}", {"base_url": address}).json()
    stays = address in SAME_SERVER
    assert (moved["has_key"], moved["key_was_dropped"]) == (stays, not stays)
    agent.refresh_from_db()
    assert bool(agent.api_key_encrypted) is stays


def test_new_server_with_its_own_key_keeps_that(staff: User) -> None:
    values = {"name": "Local", "base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key": "secret"}
    agent = create_agent(caller=Caller.of(staff), values=values)
    moved = {"base_url": "http://127.0.0.1:2/v1", "api_key": "another"}
    changed = Api(staff).send("PATCH", f"/agents/{agent.pk}", moved).json()
    assert (changed["has_key"], changed["key_was_dropped"]) == (True, False)
    agent.refresh_from_db()
    assert decrypt(agent.api_key_encrypted) == "another"


def test_page_says_that_key_must_be_entered_again(staff: User) -> None:
    values = {"name": "Local", "base_url": "http://127.0.0.1:1/v1", "model": "m"}
    agent = create_agent(caller=Caller.of(staff), values=values | {"api_key": "secret"})
    client = signed_in(staff)
    same = client.post(f"/agents/{agent.pk}", values | {"name": "Renamed"}, follow=True)
    assert "enter the key again" not in same.content.decode()
    moved = client.post(f"/agents/{agent.pk}", values | {"base_url": "http://127.0.0.1:2/v1"}, follow=True)
    assert "enter the key again" in moved.content.decode()
    assert "A key is stored" not in client.get(f"/agents/{agent.pk}").content.decode()


def test_servers_key_goes_to_no_address_of_owner(staff: User, settings: Settings) -> None:
    settings.CHAT_API_KEY, settings.CHAT_MODEL = "the-server's", "gpt"
    agent = create_agent(
        caller=Caller.of(staff), values={"name": "L", "base_url": "http://127.0.0.1:1/v1", "model": "m"}
    )
    assert options_of(agent, caller=Caller.of(staff)).endpoint.api_key == ""
    assert options_of(None, caller=Caller.of(staff)).endpoint.api_key == "the-server's"


def test_address_is_allowed_when_it_is_used_not_only_when_it_is_saved(staff: User, settings: Settings) -> None:
    agent = create_agent(caller=Caller.of(staff), values={"name": "L", "base_url": "http://10.0.0.7/v1", "model": "m"})
    staff.user_permissions.clear()
    for is_staff in (True, False):
        User.objects.filter(pk=staff.pk).update(is_staff=is_staff)
        staff = User.objects.get(pk=staff.pk)
        with pytest.raises(InvalidInput):
            options_of(agent, caller=Caller.of(staff))
    settings.CHAT_ALLOWED_HOSTS = ["10.0.0.7"]
    assert options_of(agent, caller=Caller.of(staff)).endpoint.model == "m"


def test_changed_secret_key_asks_for_key_again(staff: User, settings: Settings) -> None:
    values = {"name": "L", "base_url": "http://10.0.0.7/v1", "model": "m", "api_key": "x"}
    agent = create_agent(caller=Caller.of(staff), values=values)
    settings.SECRET_KEY = "another"
    with pytest.raises(NoEndpoint, match="enter the key again"):
        options_of(agent, caller=Caller.of(staff))


def test_foreign_agents_are_not_found(api: Api, owner: User, settings: Settings) -> None:
    settings.CHAT_BASE_URL, settings.CHAT_MODEL = "http://127.0.0.1:9/v1", "m"
    theirs = create_agent(caller=Caller.of(make_user()), values={"name": "Theirs", "system_prompt": "their secret"})
    assert api.get("/agents").json()["results"] == []
    for number in (theirs.pk, theirs.pk + 1):
        assert api.get(f"/agents/{number}").status_code == 404
        assert api.send("PATCH", f"/agents/{number}", {"name": "x"}).status_code == 404
        assert api.send("DELETE", f"/agents/{number}", "").status_code == 404
    client = signed_in(owner)
    assert b"their secret" not in client.get("/agents").content
    assert client.get(f"/agents/{theirs.pk}").status_code == 404
    assert client.post(f"/agents/{theirs.pk}/delete").status_code == 404
    assert Agent.objects.filter(pk=theirs.pk).exists()


def test_form_says_what_is_wrong_and_saves_what_is_right(owner: User) -> None:
    client = signed_in(owner)
    refused = client.post("/agents/new", {"name": "Baker", "context_strategies": ["token_budget", "magic"]})
    assert refused.status_code == 422
    assert "magic is not one of the available choices" in refused.content.decode()
    values = {
        "name": "Baker",
        "context_strategies": ["tool_output_trim", "token_budget"],
        "tools": ["ConversationSearch"],
    }
    assert client.post("/agents/new", values).status_code == 302
    agent = Agent.objects.get()
    assert agent.context_strategies == ["tool_output_trim", "token_budget"]
    page = client.get(f"/agents/{agent.pk}").content.decode()
    assert page.index('value="tool_output_trim"') < page.index('value="token_budget"') < page.index('value="none"')
    assert client.post(f"/agents/{agent.pk}", {"name": "Cook"}).status_code == 302
    agent.refresh_from_db()
    assert (agent.name, agent.tools) == ("Cook", [])
    assert client.post(f"/agents/{agent.pk}/delete").status_code == 302
    assert not Agent.objects.exists()
