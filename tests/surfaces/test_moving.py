"""Moving and copying by page, library and API."""

from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User
from django.test import Client

from convmemory.accounts.keys import create_key
from convmemory.accounts.models import Archive, AuditEntry
from convmemory.accounts.spaces import create_space
from convmemory.conversations.models import Conversation
from tests.factories import add_member, exchange, make_conversation, make_user
from tests.support.api import signed_in

pytestmark = pytest.mark.django_db


@dataclass
class Crew:
    """Carl contributes to the space and Rosa reads it; each has a conversation, and so has the space."""

    carl: User
    rosa: User
    space: Archive
    of_carl: Conversation
    of_rosa: Conversation
    of_space: Conversation


@pytest.fixture
def crew() -> Crew:
    mia, carl, rosa = (make_user(name) for name in ("mia", "carl", "rosa"))
    space = create_space(person=mia, name="Boat house")
    for name, role in (("carl", "contributor"), ("rosa", "reader")):
        add_member(person=mia, space_id=space.pk, username=name, role=role)
    titled: list[tuple[User | Archive, str]] = [(carl, "carl"), (rosa, "rosa"), (space, "space")]
    made = (make_conversation(each, exchange(("Where?", "Here.")), title=title) for each, title in titled)
    return Crew(carl, rosa, space, *made)


def program_of(user: User, space_ids: list[int], *, writes: bool = False) -> Client:
    key = create_key(person=user, space_ids=space_ids, writes_spaces=writes)
    return Client(headers={"Authorization": f"Bearer {key}"})


def ask(client: Client, conversation: Conversation, **values: object) -> tuple[int, str]:
    body = {"kind": "conversation", "id": conversation.pk, **values}
    response = client.post("/api/v1/moves", body, content_type="application/json")
    return response.status_code, response.content.decode()


def test_page_of_conversation_moves_it_to_space_and_its_address_stays(crew: Crew) -> None:
    browser, address = signed_in(crew.carl), crew.of_carl.get_absolute_url()
    assert f'href="/move?conversation={crew.of_carl.pk}"' in browser.get(address).content.decode()
    asked = browser.get("/move", {"conversation": crew.of_carl.pk}).content.decode()
    assert f'<option value="{crew.space.pk}">Boat house</option>' in asked
    done = browser.post("/move", {"conversation": crew.of_carl.pk, "space": crew.space.pk}, follow=True)
    assert done.redirect_chain[-1][0] == address
    assert "Moved to Boat house." in done.content.decode()
    assert signed_in(crew.rosa).get(address).status_code == 200
    acts = AuditEntry.objects.filter(action="moved")
    assert set(acts.values_list("person__username", "surface")) == {("carl", "page")}


def test_page_offers_reader_only_a_copy_to_own_archive(crew: Crew) -> None:
    browser = signed_in(crew.rosa)
    asked = browser.get("/move", {"conversation": crew.of_space.pk}).content.decode()
    assert 'name="copy"' in asked
    assert ">Move</button>" not in asked
    assert f'<option value="{crew.space.pk}">' not in asked
    here = {"conversation": crew.of_space.pk, "space": ""}
    assert browser.post("/move", here).status_code == 403
    copied = browser.post("/move", here | {"copy": "1"})
    assert copied["Location"] == crew.of_space.get_absolute_url()
    copy = Conversation.objects.get(archive_id=crew.rosa.pk, title="space").get_absolute_url()
    assert f'Copied to Your own archive · <a href="{copy}">Open</a>' in browser.get(copied["Location"]).content.decode()
    nothing = browser.get("/move", {"conversation": crew.of_rosa.pk}).content.decode()
    assert "no other archive" in nothing
    assert browser.get("/move", {"conversation": crew.of_carl.pk}).status_code == 404


def test_library_moves_chosen_ones_and_names_the_refused(crew: Crew) -> None:
    browser = signed_in(crew.carl)
    second = make_conversation(crew.carl, exchange(("Who?", "Me.")))
    chosen = {"action": "move", "chosen": f"{crew.of_carl.pk},{second.pk}"}
    asked = browser.post("/library/change", chosen)
    assert asked["Location"] == f"/move?conversation={crew.of_carl.pk}&conversation={second.pk}"
    assert "and 1 more" in browser.get(asked["Location"]).content.decode()
    numbers = [crew.of_carl.pk, second.pk, crew.of_rosa.pk]
    done = browser.post("/move", {"conversation": numbers, "space": crew.space.pk}, follow=True).content.decode()
    assert "2 moved to Boat house." in done
    assert f"{crew.of_rosa.pk}: There is no conversation" in done
    assert Conversation.objects.filter(archive_id=crew.space.pk).count() == 3


def test_api_moves_for_sessions_and_keys_only_copy_out_of_their_spaces(crew: Crew) -> None:
    into = {"space": crew.space.pk}
    assert ask(Client(), crew.of_carl, **into)[0] == 401
    assert ask(signed_in(crew.rosa), crew.of_carl, **into)[0] == 404
    assert ask(signed_in(crew.rosa), crew.of_rosa, **into)[0] == 403
    assert ask(signed_in(crew.rosa), crew.of_rosa, space=2**62)[0] == 404
    status, body = ask(signed_in(crew.carl), crew.of_carl, **into)
    assert (status, f'"url": "/conversations/{crew.of_carl.pk}"' in body) == (200, True)
    blind, wide = program_of(crew.carl, []), program_of(crew.carl, [crew.space.pk])
    assert ask(blind, crew.of_space, copy=True)[0] == 404
    assert ask(wide, crew.of_space)[0] == 403
    assert ask(wide, make_conversation(crew.carl, exchange(("Who?", "Me."))), **into)[0] == 403
    assert ask(wide, crew.of_space, copy=True)[0] == 200
    assert Conversation.objects.filter(archive_id=crew.carl.pk, title="space").exists()


def test_key_that_writes_to_space_moves_into_it_and_no_other(crew: Crew) -> None:
    other = create_space(person=crew.carl, name="Ski club")
    program = program_of(crew.carl, [crew.space.pk], writes=True)
    assert ask(program, crew.of_carl, space=other.pk)[0] == 404
    assert ask(program_of(crew.carl, [], writes=True), crew.of_carl, space=crew.space.pk)[0] == 404
    assert ask(program_of(crew.rosa, [crew.space.pk], writes=True), crew.of_rosa, space=crew.space.pk)[0] == 403
    assert ask(program, crew.of_carl, space=crew.space.pk)[0] == 200
    said = {"messages": [{"role": "user", "content": "And then?"}, {"role": "assistant", "content": "Then we row."}]}
    path = f"/api/v1/conversations/{crew.of_carl.pk}/messages"
    assert program.post(path, said, content_type="application/json").status_code == 201
    moved = Conversation.objects.get(pk=crew.of_carl.pk)
    assert (moved.archive_id, moved.message_count) == (crew.space.pk, 4)
