"""Invitations to spaces by link: who joins by one, once, and what makes it void."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from convmemory.accounts import space_invitations
from convmemory.accounts.models import AuditEntry, Mail, Membership, SpaceInvitation
from convmemory.accounts.spaces import create_space, remove_member
from tests.factories import add_member, make_user
from tests.support.api import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def mia() -> User:
    return make_user("mia")


@pytest.fixture
def space(mia: User) -> int:
    return create_space(person=mia, name="Boat house").pk


def make_link(mia: User, space: int, address: str = "", role: str = "reader") -> str:
    answer = signed_in(mia).post(f"/spaces/{space}", {"action": "link", "address": address, "role": role}, follow=True)
    assert answer.status_code == 200, answer.content
    return str(re.findall(r"http://testserver(/spaces/join/[\w-]+)", answer.content.decode())[0])


def is_member(user: User, space: int) -> bool:
    return Membership.objects.filter(person=user, archive_id=space).exists()


def test_link_says_who_invites_and_makes_one_person_a_member(mia: User, space: int) -> None:
    path, rosa, tom = make_link(mia, space, role="contributor"), make_user("rosa"), make_user("tom")
    signed_out = Client().get(path)
    assert (signed_out.status_code, signed_out.headers["Location"]) == (302, f"/login?next={path}")
    page = signed_in(rosa).get(path).content.decode()
    assert "<strong>mia</strong> invites you to <strong><bdi>Boat house</bdi></strong> as Contributor." in page
    assert not is_member(rosa, space)
    assert signed_in(rosa).post(path).headers["Location"] == f"/spaces/{space}"
    assert Membership.objects.get(person=rosa, archive_id=space).role == "contributor"
    assert signed_in(tom).post(path).status_code == 404
    assert not is_member(tom, space)
    assert AuditEntry.objects.filter(what=f"contributor of space {space}, by invitation").exists()


def test_member_who_opens_link_does_not_use_it_up(mia: User, space: int) -> None:
    path, rosa = make_link(mia, space), make_user("rosa")
    signed_in(mia).post(path)
    assert Membership.objects.get(person=mia, archive_id=space).role == "manager"
    signed_in(rosa).post(path)
    assert is_member(rosa, space)


def withdraw(mia: User, space: int) -> None:
    space_invitations.withdraw(person=mia, space_id=space, invitation_id=SpaceInvitation.objects.get().pk)


def expire(mia: User, space: int) -> None:
    row = SpaceInvitation.objects.get()
    SpaceInvitation.objects.update(invited_at=row.invited_at - space_invitations.LASTS - timedelta(minutes=1))


def remove_manager(mia: User, space: int) -> None:
    add_member(person=mia, space_id=space, username=make_user("second").username, role="manager")
    remove_member(person=mia, space_id=space, member_id=mia.pk)


def by_name_alone(mia: User, space: int) -> None:
    SpaceInvitation.objects.update(by_link=False)


@pytest.mark.parametrize("void", [withdraw, expire, remove_manager, by_name_alone])
def test_void_link_opens_nothing(mia: User, space: int, void: Callable[[User, int], None]) -> None:
    path, rosa = make_link(mia, space), make_user("rosa")
    void(mia, space)
    for answer in (signed_in(rosa).get(path), signed_in(rosa).post(path)):
        assert answer.status_code == 404
        assert "Boat house" not in answer.content.decode()
    assert not is_member(rosa, space)


@pytest.mark.parametrize("token", ["1", "0-0", "x-y", "99999999999999999999-a", "-"])
def test_guessed_link_opens_nothing(mia: User, space: int, token: str) -> None:
    path, rosa = make_link(mia, space), make_user("rosa")
    number = SpaceInvitation.objects.get().pk
    for guess in (token, f"{number}-{'0' * 64}", f"{number}-", path.rpartition("/")[2][:-1]):
        assert signed_in(rosa).get(f"/spaces/join/{guess}").status_code == 404
    assert not any(path.partition("-")[2] in str(values) for values in SpaceInvitation.objects.values())


def test_only_managers_make_and_see_links(mia: User, space: int) -> None:
    path, rosa = make_link(mia, space), make_user("rosa")
    add_member(person=mia, space_id=space, username="rosa", role="contributor")
    values = {"action": "link", "address": "", "role": "manager"}
    assert signed_in(rosa).post(f"/spaces/{space}", values).status_code == 403
    assert path not in signed_in(rosa).get(f"/spaces/{space}").content.decode()
    assert signed_in(make_user("eve")).post(f"/spaces/{space}", values).status_code == 404


def test_link_is_mailed_once_to_its_address(mia: User, space: int, settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example"
    path = make_link(mia, space, "rosa@example.org")
    mail = Mail.objects.get()
    assert mail.recipient == "rosa@example.org"
    assert path in mail.text
    assert "Boat house" not in mail.text
    withdraw(mia, space)
    again = make_link(mia, space, "rosa@example.org")
    assert again != path
    assert Mail.objects.count() == 1
    refused = signed_in(mia).post(f"/spaces/{space}", {"action": "link", "address": "no address", "role": "reader"})
    assert refused.status_code == 422
    assert "is no e-mail address" in refused.content.decode()
