"""The quota over HTTP: chat, page and proxy answer 429 with when it ends; own endpoints are not counted."""

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from convmemory.accounts.models import ModelUse, Quota
from convmemory.accounts.quota import model_use, reserve
from convmemory.conversations.models import Conversation
from tests.factories import make_user
from tests.support.api import signed_in
from tests.support.chat_server import ChatServer, Raw, Say, Script, calls, fails, says
from tests.support.chatting import Talker
from tests.support.patience import ANSWER_S
from tests.support.site import running_site

pytestmark = pytest.mark.django_db(transaction=True)

HELLO = {"role": "user", "content": "What is the capital of Peru?"}
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 234, "total_tokens": 1234}}\n\n'


@pytest.fixture
def ada(endpoint: ChatServer, owner: User) -> Iterator[Talker]:
    with running_site() as address:
        talker = Talker(address, owner)
        yield talker
        talker.close()


@pytest.fixture
def client(ada: Talker) -> Iterator[openai.OpenAI]:
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(base_url=f"{ada.http.base_url}/v1", api_key=ada.key, max_retries=0, http_client=http) as made:
        yield made


def used(owner: User) -> tuple[int, int]:
    use = model_use(archive_id=owner.pk).today
    return use.tokens, use.requests


def use_up(owner: User, settings: Settings) -> None:
    reserve(archive_id=owner.pk, person_id=owner.pk, tokens=50)
    settings.CHAT_DAILY_TOKENS = 50


def settled(owner: User, tokens: range, requests: int) -> bool:
    """Wait until the use is in this range: exchanges are counted after they were passed on."""
    for _ in range(500):
        found = used(owner)
        if found[0] in tokens and found[1] == requests:
            return True
        time.sleep(0.02)
    return pytest.fail(f"used: {used(owner)}")


def test_chat_counts_what_endpoint_says(ada: Talker, owner: User, endpoint: ChatServer) -> None:
    endpoint.scripts.append(Script((Say("Lima."), Raw(USAGE))))
    ada.ask(ada.new_conversation(), "What is the capital of Peru?")
    assert used(owner) == (1_234, 1)


def test_chat_is_estimated_where_endpoint_says_nothing(ada: Talker, owner: User, endpoint: ChatServer) -> None:
    endpoint.scripts.extend([calls("list_conversations"), says("None. " * 400)])
    ada.ask(ada.new_conversation(), "What have I stored?")
    tokens, requests = used(owner)
    assert requests == 2
    assert 600 < tokens < 10_000


def test_failed_chat_request_costs_no_tokens(ada: Talker, owner: User, endpoint: ChatServer) -> None:
    endpoint.scripts.append(fails(500))
    ada.ask(ada.new_conversation(), "Hello?")
    assert used(owner) == (0, 1)


def test_over_quota_chat_is_refused_with_when_it_ends(
    ada: Talker, owner: User, endpoint: ChatServer, settings: Settings
) -> None:
    use_up(owner, settings)
    number = ada.new_conversation()
    refused = ada.post(f"/conversations/{number}/stream", message="Hello?")
    assert refused.status_code == 429
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert "again from" in refused.json()["detail"]
    assert 0 < int(refused.headers["Retry-After"]) <= 86_400
    assert (ada.messages(number), endpoint.requests) == ([], [])
    stranger = Talker(str(ada.http.base_url), make_user())
    assert stranger.ask(stranger.new_conversation(), "Hello?")[-1][0] == "done"
    stranger.close()


def test_quota_that_ends_during_reply_ends_reply(
    ada: Talker, owner: User, endpoint: ChatServer, settings: Settings
) -> None:
    settings.CHAT_DAILY_TOKENS = 1_000
    endpoint.scripts.append(Script((*calls("list_conversations").steps, Raw(USAGE))))
    number = ada.new_conversation()
    event, told = ada.ask(number, "What have I stored?")[-1]
    assert (event, told["status"]) == ("error", "failed")
    assert "again from" in told["detail"]
    assert told["retry_after_s"] > 0
    assert len(endpoint.requests) == 1


def test_agent_with_own_endpoint_is_not_limited_by_quota(
    ada: Talker, owner: User, endpoint: ChatServer, settings: Settings
) -> None:
    settings.CHAT_ALLOWED_HOSTS = ["127.0.0.1"]
    use_up(owner, settings)
    agent = ada.post("/agents", name="L", model="m", base_url=endpoint.url, api_key=endpoint.key).json()["id"]
    assert ada.ask(ada.new_conversation(), "Hello?", agent_id=agent)[-1][0] == "done"
    assert used(owner) == (50, 1)
    plain = ada.post("/agents", name="P", api_key="a key for nothing").json()["id"]
    number = ada.new_conversation()
    assert ada.post(f"/conversations/{number}/stream", message="Hello?", agent_id=plain).status_code == 429


@pytest.mark.parametrize("streams", [False, True])
def test_proxy_counts_and_refuses(
    client: openai.OpenAI, owner: User, endpoint: ChatServer, settings: Settings, streams: bool
) -> None:
    create: Any = client.chat.completions.create
    endpoint.scripts.append(Script((Say("Lima."), Raw(USAGE)) if streams else (Say("Lima."),)))
    answer = create(model="m", messages=[HELLO], stream=streams)
    if streams:
        list(answer)
    assert settled(owner, range(1_234, 1_235) if streams else range(2, 3), 1)
    use_up(owner, settings)
    with pytest.raises(openai.RateLimitError, match="again from") as caught:
        create(model="m", messages=[HELLO], stream=streams)
    assert int(caught.value.response.headers["Retry-After"]) > 0
    assert len(endpoint.requests) == 1


def test_proxy_estimates_and_refunds(client: openai.OpenAI, owner: User, endpoint: ChatServer) -> None:
    create: Any = client.chat.completions.create
    endpoint.scripts.extend([says("Lima. " * 200), fails(500)])
    list(create(model="m", messages=[HELLO], stream=True))
    assert settled(owner, range(300, 400), 1)
    before = used(owner)[0]
    with pytest.raises(openai.InternalServerError):
        create(model="m", messages=[HELLO])
    assert settled(owner, range(before, before + 1), 2)


def test_account_page_shows_use_and_chat_over_quota_gets_429(ada: Talker, owner: User, settings: Settings) -> None:
    browser = signed_in(owner)
    cookie = {"convmemory_session": browser.cookies["convmemory_session"].value}
    reserve(archive_id=owner.pk, person_id=owner.pk, tokens=12_345)
    text = browser.get("/settings/account").content.decode()
    assert "12,345" in text
    assert "no limit" in text
    settings.CHAT_DAILY_TOKENS = 10_000
    text = browser.get("/settings/account").content.decode()
    assert "of 10,000" in text
    Quota.objects.create(archive_id=owner.pk, monthly_tokens=20_000)
    assert "of 20,000" in browser.get("/settings/account").content.decode()
    assert "again from" in text
    address = str(ada.http.base_url)
    with httpx2.Client(base_url=address, cookies=cookie, timeout=ANSWER_S, trust_env=False) as http:
        page = http.get("/chat").text
        token = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
        form = {"message": "Hello?", "csrfmiddlewaretoken": token}
        refused = http.post("/chat/send", data=form)
    assert refused.status_code == 429
    assert "again from" in refused.text
    assert not Conversation.objects.exists()


def test_summary_over_quota_gets_429(ada: Talker, owner: User, settings: Settings) -> None:
    number = ada.new_conversation()
    ada.post(f"/conversations/{number}/messages", messages=[HELLO, {"role": "assistant", "content": "Lima."}])
    use_up(owner, settings)
    assert ada.post(f"/conversations/{number}/summaries").status_code == 429
    browser = signed_in(owner)
    refused = browser.post(f"/conversations/{number}/summaries", {"method": "model"})
    assert refused.status_code == 429
    assert "again from" in refused.content.decode()
    assert ModelUse.objects.count() == 1
