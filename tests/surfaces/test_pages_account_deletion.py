"""Deleting one's own account on the page: what is shown, what is asked, what is gone."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from convmemory.conversations.models import Conversation
from convmemory.core.models import OwnerTask
from convmemory.ops import views
from convmemory.ops.models import Erasure
from convmemory.ops.privacy.ownership import owned_tables
from convmemory.ops.tasks import erase, finish_erasures
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import signed_in

pytestmark = pytest.mark.django_db
PAGE = "/settings/account/delete"


@pytest.fixture
def ada() -> User:
    return make_user("ada")


@pytest.fixture
def client(ada: User) -> Client:
    make_conversation(ada, exchange(("one", "1"), ("two", "2")))
    return signed_in(ada)


def test_page_says_what_goes_and_password_confirms(client: Client) -> None:
    bob = make_user("bob")
    page = client.get(PAGE).content.decode()
    assert "<li>Conversations: 1</li>" in page
    assert "<li>Messages: 4</li>" in page
    answer = client.post(PAGE, {"confirmation": "correct horse"})
    text = answer.content.decode()
    assert "The account is deleted" in text
    assert "<code>conversations_message</code>: 4" in text
    assert list(User.objects.all()) == [bob]
    assert client.get(PAGE).headers["Location"].startswith("/login")


def test_every_table_of_index_has_name_and_rest_says_what_it_contains(client: Client) -> None:
    named = [table for _, tables in views.NAMES for table in tables]
    owned = {table.name for table in owned_tables()}
    assert set(named) <= owned
    assert len(set(named)) == len(named)
    of_index = {name for name in owned if name.startswith(("search_", "memory_", "embeddings_"))}
    assert of_index - set(named) == {"search_pastsearch"}
    page = client.get("/settings/data").content.decode()
    assert "Words and whatever else search needs" in page
    assert "Everything else, such as sources of messages" in page


def test_wrong_password_deletes_nothing(client: Client, ada: User) -> None:
    answer = client.post(PAGE, {"confirmation": "wrong"})
    assert answer.status_code == 422
    assert "That is not your password. Nothing was deleted." in answer.content.decode()
    ada.refresh_from_db()
    assert ada.is_active
    assert Conversation.objects.filter(archive_id=ada.pk).count() == 1


def test_user_without_password_confirms_with_name(client: Client, ada: User) -> None:
    ada.set_unusable_password()
    ada.save()
    client.force_login(ada)
    assert client.post(PAGE, {"confirmation": "bob"}).status_code == 422
    assert client.post(PAGE, {"confirmation": "ada"}).status_code == 200
    assert not User.objects.exists()


def test_large_account_is_finished_in_background(
    client: Client, ada: User, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(views, "PATIENCE_S", -1.0)
    assert "is being deleted" in client.post(PAGE, {"confirmation": "correct horse"}).content.decode()
    ada.refresh_from_db()
    assert not ada.is_active
    queued = OwnerTask.objects.get()
    assert (queued.func, queued.args) == ("convmemory.ops.tasks.erase", [ada.pk])
    settings.TASK_TIMEOUT_S = 600
    erase(ada.pk)
    assert not User.objects.exists()
    assert erase(ada.pk) == {"deleted": 0}


def test_erasure_whose_worker_died_is_taken_up_again(ada: User) -> None:
    Erasure.objects.create(user=ada)
    assert finish_erasures() == {"enqueued": 0}
    Erasure.objects.update(requested_at=ada.date_joined.replace(year=2020))
    assert finish_erasures() == {"enqueued": 1}


def test_account_deletion_ignores_other_users(client: Client) -> None:
    bob = make_user("bob")
    client.post(f"{PAGE}?user=bob", {"confirmation": "correct horse", "user": bob.pk})
    assert list(User.objects.all()) == [bob]
    assert Client().post(PAGE, {"confirmation": "correct horse"}).headers["Location"].startswith("/login")
