"""Two web processes that read from a replica, which is held up and killed on the way."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import httpx2
import pytest
from django.contrib.auth.models import User

from convmemory.accounts.keys import create_key
from convmemory.conversations.models import Conversation
from tests.factories import exchange, make_conversation, make_user
from tests.support.installation import wait_until
from tests.support.replica import StreamingReplica, streaming_replica
from tests.support.web_process import web_process

pytestmark = pytest.mark.django_db(transaction=True)


class Person:
    """A user with a conversation, who asks the processes by turns."""

    def __init__(self, user: User) -> None:
        self.chat = make_conversation(user, exchange(("where is the zebrafish lab?", "In Lima.")), title="old")
        self.headers = {"Authorization": f"Bearer {create_key(owner=user)}"}

    def titles(self, address: str) -> list[str]:
        answer = httpx2.get(f"{address}/api/v1/conversations", headers=self.headers, timeout=60)
        assert answer.status_code == 200, answer.text
        return [row["title"] for row in answer.json()["results"]]

    def has(self, address: str, title: str) -> bool:
        return self.titles(address) == [title]

    def rename(self, address: str, title: str) -> None:
        url = f"{address}/api/v1/conversations/{self.chat.pk}"
        answer = httpx2.patch(url, headers=self.headers, json={"title": title}, timeout=60)
        assert answer.status_code == 200, answer.text

    def rename_behind_their_back(self, title: str) -> None:
        Conversation.objects.filter(pk=self.chat.pk).update(title=title)


@pytest.fixture
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamingReplica]:
    with streaming_replica(tmp_path_factory.mktemp("replica") / "copy") as replica:
        yield replica


@pytest.fixture
def webs(replica: StreamingReplica) -> Iterator[tuple[str, str]]:
    with ExitStack() as stack:
        started = [stack.enter_context(web_process({"DATABASE_REPLICA_URLS": replica.url})) for _ in range(2)]
        yield started[0].address, started[1].address


def test_people_read_what_they_wrote_through_any_process(webs: tuple[str, str], replica: StreamingReplica) -> None:
    ada, eve = Person(make_user()), Person(make_user())
    replica.catch_up()
    replica.pause()
    try:
        eve.rename_behind_their_back("new")
        ada.rename(webs[0], "new")
        for address in webs:
            assert ada.titles(address) == ["new"]
            wait_until(partial(eve.has, address, "old"), "an answer of the replica", 60)
    finally:
        replica.resume()
    for address in webs:
        wait_until(partial(eve.has, address, "new"), "the replica's rows", 60)

    replica.kill()
    eve.rename_behind_their_back("newest")
    for address in webs:
        assert (ada.titles(address), eve.titles(address)) == (["new"], ["newest"])
