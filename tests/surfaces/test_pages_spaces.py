"""The pages of spaces: members by role, the archive that pages show, and the end of a membership."""

import html
import re
from copy import deepcopy
from dataclasses import dataclass, replace

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client

from convmemory.accounts.models import ApiKey, Archive, AuditEntry, Membership, SpaceInvitation
from convmemory.accounts.space_invitations import invitations_of_space
from convmemory.accounts.spaces import create_space
from convmemory.conversations.importing.models import Import
from convmemory.conversations.models import Conversation, HiddenKey
from convmemory.core.acting import acting_for
from convmemory.core.errors import NotAllowed
from convmemory.core.models import OwnerTask
from convmemory.core.queue.fair_queue import enqueue_for
from convmemory.documents.models import Document
from tests.factories import add_member, exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.documents import indexed, upload
from tests.support.planted_keys import secret
from tests.support.stored_rows import stored_for_file

pytestmark = pytest.mark.django_db

OFFERS_TO_WRITE = {
    "/import": 'class="upload"',
    "/documents": 'class="upload"',
    "/trash": "Delete old conversations by rules",
    "/trash/rules": "New rule",
}


@dataclass
class Crew:
    """A space with a conversation, and browsers of its manager, its contributor, its reader and a stranger."""

    space: int
    conversation: Conversation
    browsers: dict[str, Client]

    @property
    def page(self) -> str:
        return f"/spaces/{self.space}"


def store_crew() -> Crew:
    people = {name: make_user(name) for name in ("mia", "carl", "rosa", "stan")}
    account = create_space(person=people["mia"], name="Boat house")
    for name, role in (("carl", "contributor"), ("rosa", "reader")):
        add_member(person=people["mia"], space_id=account.pk, username=name, role=role)
    browsers = {name: Client() for name in people}
    for name, browser in browsers.items():
        browser.force_login(people[name])
    return Crew(account.pk, make_conversation(account, exchange(("where is the oar?", "in the shed"))), browsers)


stored_crew = stored_for_file(store_crew)


@pytest.fixture
def crew(stored_crew: Crew) -> Crew:
    browsers = {name: Client() for name in stored_crew.browsers}
    for name, browser in browsers.items():
        browser.cookies = deepcopy(stored_crew.browsers[name].cookies)
    return replace(stored_crew, browsers=browsers)


def text_of(browser: Client, path: str, status: int = 200) -> str:
    response = browser.get(path)
    assert response.status_code == status
    return response.content.decode()


def test_person_creates_space_and_manages_members() -> None:
    ben, browser = make_user("ben"), Client()
    browser.force_login(make_user("amy"))
    page = browser.post("/spaces", {"name": "  Garden  club "}, follow=True)
    space = Archive.objects.get(kind="space", name="Garden club")
    assert page.redirect_chain[-1][0] == f"/spaces/{space.pk}"
    path = f"/spaces/{space.pk}"
    browser.post(path, {"action": "invite", "username": "ben", "role": "reader"})
    invited = signed_in(ben)
    invited.post("/spaces/invitations", {"action": "accept", "invitation": SpaceInvitation.objects.get().pk})
    browser.post(path, {"action": "set", "member": ben.pk, "role": "contributor"})
    browser.post(path, {"action": "rename", "name": "Allotment"})
    members = Membership.objects.filter(archive=space).order_by("pk").values_list("person__username", "role")
    assert list(members) == [("amy", "manager"), ("ben", "contributor")]
    assert "Allotment" in text_of(browser, "/spaces")
    assert AuditEntry.objects.filter(action="changed", about=space, what=f"name of space {space.pk}").count() == 1


@pytest.mark.parametrize(
    ("values", "status", "reason"),
    [
        ({"action": "set", "member": "stan", "role": "reader"}, 422, "no such member"),
        ({"action": "set", "member": "carl", "role": "owner"}, 422, "There is no role"),
        ({"action": "set", "member": "mia", "role": "reader"}, 422, "needs a manager"),
        ({"action": "invite", "username": "stan", "role": "owner"}, 422, "There is no role"),
        ({"action": "invite", "username": "carl", "role": "reader"}, 422, "is a member already"),
        ({"action": "invite", "username": " ", "role": "reader"}, 422, "Enter a user name"),
        ({"action": "withdraw", "invitation": "1"}, 422, "no such invitation"),
        ({"action": "remove", "member": "mia"}, 422, "needs a manager"),
        ({"action": "rename", "name": " "}, 422, "needs a name"),
    ],
)
def test_impossible_change_says_why(crew: Crew, values: dict[str, str], status: int, reason: str) -> None:
    member = User.objects.get(username=values["member"]).pk if "member" in values else ""
    response = crew.browsers["mia"].post(crew.page, values | {"member": member})
    assert response.status_code == status
    assert reason in response.content.decode()


def test_members_without_manager_role_change_no_members(crew: Crew) -> None:
    before = list(Membership.objects.order_by("pk").values_list("person", "role"))
    for name, other in (("carl", "rosa"), ("rosa", "carl")):
        member = User.objects.get(username=other).pk
        for values in (
            {"action": "rename", "name": "Mine"}, {"action": "invite", "username": "stan", "role": "reader"},
            {"action": "set", "member": member, "role": "manager"}, {"action": "remove", "member": member},
            {"action": "withdraw", "invitation": 1},
        ):  # fmt: skip
            assert crew.browsers[name].post(crew.page, values).status_code == 403, values
        assert "Rename" not in text_of(crew.browsers[name], crew.page)
        with pytest.raises(NotAllowed):
            invitations_of_space(person=User.objects.get(username=name), space_id=crew.space)
    assert crew.browsers["stan"].post(crew.page, {"action": "rename", "name": "Mine"}).status_code == 404
    text_of(crew.browsers["stan"], crew.page, 404)
    assert Archive.objects.get(kind="space").name == "Boat house"
    assert list(Membership.objects.order_by("pk").values_list("person", "role")) == before


def test_usual_address_of_conversation_opens_for_members_alone(crew: Crew) -> None:
    address = crew.conversation.get_absolute_url()
    for name in ("mia", "carl", "rosa"):
        page = text_of(crew.browsers[name], f"{address}?turn=0")
        assert "in the shed" in page
        assert "This is in the space <strong>Boat house</strong>" in page
    text_of(crew.browsers["stan"], address, 404)


def test_links_of_page_in_space_lead_members_to_an_answer(crew: Crew) -> None:
    page = text_of(crew.browsers["mia"], crew.conversation.get_absolute_url())
    links = set(re.findall(rf'href="(/[^"]*conversations?[/=]{crew.conversation.pk}\b[^"]*)"', html.unescape(page)))
    assert any("/export?" in link for link in links)
    for link in links:
        assert crew.browsers["mia"].get(link).status_code == 200, link
        assert crew.browsers["stan"].get(link).status_code == 404, link


def test_import_of_space_opens_for_members_whatever_archive_they_use(crew: Crew) -> None:
    row = Import.objects.create(archive_id=crew.space, name="oars.zip", format="auto", size=1, state=Import.State.DONE)
    for name in ("mia", "carl", "rosa"):
        assert "oars.zip" in text_of(crew.browsers[name], f"/import/{row.pk}")
    text_of(crew.browsers["stan"], f"/import/{row.pk}", 404)
    assert crew.browsers["carl"].post(f"/import/{row.pk}/undo").headers["Location"] == f"/import/{row.pk}"
    assert crew.browsers["rosa"].post(f"/import/{row.pk}/undo").status_code == 403


def test_hidden_key_of_space_is_revealed_by_api_as_on_its_page(crew: Crew) -> None:
    said = exchange((f"the key is {secret('github-token')}", "noted"))
    with acting_for(crew.space):
        made = make_conversation(crew.conversation.archive, said)
    key = HiddenKey.objects.get()
    page, route = f"/conversations/{made.pk}/keys", f"/api/v1/hidden_keys/{key.pk}/reveal"
    for name, status in (("mia", 200), ("carl", 200), ("rosa", 403), ("stan", 404)):
        browser = crew.browsers[name]
        assert browser.post(page, {"key": key.pk}).status_code == status
        revealed = browser.post(f"{route}?space={crew.space}")
        assert (name, revealed.status_code) == (name, status)
        assert status != 200 or revealed.json() == {"value": secret("github-token")}
        assert browser.post(route).status_code == 404


def test_chosen_space_is_what_pages_show_until_another_is_chosen(crew: Crew) -> None:
    browser = crew.browsers["carl"]
    assert "the oar" not in text_of(browser, "/library")
    assert browser.post("/spaces/use", {"space": crew.space}).status_code == 302
    page = text_of(browser, "/library")
    assert "the oar" in page
    assert "Boat house" in page
    assert "Your own archive" in page
    browser.post("/spaces/use")
    assert "the oar" not in text_of(browser, "/library")
    assert crew.browsers["stan"].post("/spaces/use", {"space": crew.space}).status_code == 404


def test_space_is_opened_from_its_page(crew: Crew) -> None:
    page = text_of(crew.browsers["mia"], crew.page)
    found = re.search(r'name="space" value="([^"]*)"', page)
    assert found
    assert crew.browsers["mia"].post("/spaces/use", {"space": found[1]}).status_code == 302
    assert "where is the oar?" in text_of(crew.browsers["mia"], "/")


def test_own_document_gets_new_version_and_hits_while_a_space_is_open(crew: Crew) -> None:
    mia = User.objects.get(username="mia")
    document = indexed(upload(mia, "# Guide\n\nOars are ash.", "guide.md"))
    other = indexed(upload(Archive.objects.get(pk=crew.space), "# Rules\n\nWear a vest.", "rules.md"))
    own = make_conversation(mia, exchange(("who varnishes?", "Carl does.")))
    browser = crew.browsers["mia"]
    browser.post("/spaces/use", {"space": crew.space})
    again = SimpleUploadedFile("guide.md", b"# Guide\n\nOars are spruce.")
    assert browser.post("/documents", {"file": again, "replaces": document.pk}).status_code == 302
    assert Document.objects.filter(archive_id=mia.pk).count() == 1
    assert "rules.md" in text_of(browser, "/documents")
    assert 'class="tag" dir="auto">Boat house</span>' not in text_of(browser, "/documents")
    assert text_of(browser, f"/conversations/{own.pk}/documents").count("rules.md") == 0
    browser.post("/spaces/use", {"space": ""})
    page = text_of(browser, "/documents")
    assert page.count("Boat house</span>") == 1
    assert "Your own archive</span>" not in page
    assert other.pk


def test_staff_delete_conversation_of_space(crew: Crew) -> None:
    staff = User.objects.create_superuser("root", password="x")
    browser = signed_in(staff)
    chosen = {"action": "delete_chosen", "_selected_action": crew.conversation.pk, "post": "yes"}
    browser.post("/admin/conversations/conversation/", chosen)
    assert not Conversation.objects.exists()
    acts = AuditEntry.objects.filter(about_id=crew.space, action="deleted").values_list("person__username", flat=True)
    assert set(acts) <= {"root", None}
    connection.check_constraints()


def test_administration_finds_rows_of_space_by_its_number(crew: Crew) -> None:
    browser = signed_in(User.objects.create_superuser("root", password="x"))
    for name in (f"space {crew.space}", "space 0", "space", f"space {crew.space + 99}"):
        page = text_of(browser, f"/admin/conversations/conversation/?owner={name}")
        assert ("field-archive" in page) is (name == f"space {crew.space}"), name


@pytest.mark.parametrize(("name", "imports"), [("carl", True), ("rosa", False)])
def test_empty_space_invites_those_who_may_import_and_tells_readers_who_may(
    crew: Crew, name: str, imports: bool
) -> None:
    with acting_for(crew.space):
        Conversation.objects.all().delete()
    browser = crew.browsers[name]
    browser.post("/spaces/use", {"space": crew.space})
    for path, invites in (("/", "Bring your conversations in"), ("/search?q=where+is+the+oar", "Import files</a>")):
        page = text_of(browser, path)
        assert (invites in page) is imports
        assert ("Its contributors and managers can import" in page) is not imports


@pytest.mark.parametrize(("name", "imports"), [("carl", True), ("rosa", False)])
def test_palette_in_space_offers_pages_that_work_there_and_those_of_person(
    crew: Crew, name: str, imports: bool
) -> None:
    browser = crew.browsers[name]
    browser.post("/spaces/use", {"space": crew.space})
    page = browser.get("/palette", headers={"HX-Request": "true"}).content.decode()
    assert "where is the oar?" in page
    assert 'href="/settings/password"' in page
    assert 'href="/chat"' not in page
    assert ('href="/import"' in page) is imports


def test_switcher_offers_own_archive_and_each_space(crew: Crew) -> None:
    browser = crew.browsers["carl"]
    assert "Own</span>" in text_of(browser, "/library")
    choices = browser.get("/spaces/choices", headers={"HX-Request": "true"}).content.decode()
    assert f'<button name="space" value="{crew.space}"' in choices
    assert '<button name="space" value="" aria-current="true">' in choices
    assert "All of them: search" in choices
    browser.post("/spaces/use", {"space": crew.space})
    assert "Boat house</span>" in text_of(browser, "/library")
    assert browser.post("/spaces/use", {"space": "all"})["Location"] == "/search"
    assert "Own</span>" in text_of(browser, "/library")


def test_palette_finds_spaces_by_name(crew: Crew) -> None:
    page = crew.browsers["rosa"].get("/palette?go=boat", headers={"HX-Request": "true"}).content.decode()
    assert f'href="/spaces/{crew.space}"' in page


def test_pages_tell_reader_what_a_reader_cannot_do(crew: Crew) -> None:
    limits = "You search and read here. Contributors and managers import, change and delete."
    for name, is_limited in (("rosa", True), ("carl", False)):
        browser = crew.browsers[name]
        browser.post("/spaces/use", {"space": crew.space})
        for path in ("/library", "/import"):
            assert (limits in text_of(browser, path)) is is_limited, (name, path)
        for path, offer in OFFERS_TO_WRITE.items():
            assert (offer in text_of(browser, path)) is not is_limited, (name, path)


def test_upload_forms_name_space_that_files_go_into(crew: Crew) -> None:
    with acting_for(crew.space):
        Conversation.objects.all().delete()
    browser = crew.browsers["carl"]
    goes_into = "goes into the space <strong>Boat house</strong>: all its members can read it"
    for space, is_named in (("", False), (crew.space, True)):
        browser.post("/spaces/use", {"space": space})
        for path in ("/", "/import", "/documents"):
            assert (goes_into in text_of(browser, path)) is is_named, (space, path)


def test_reader_is_refused_with_who_may_and_contributor_is_not(crew: Crew) -> None:
    path = f"/conversations/{crew.conversation.pk}/rename"
    refused = crew.browsers["rosa"].post(path, {"title": "Oars"})
    assert refused.status_code == 403
    assert "ask one of its managers to make you a contributor" in refused.content.decode()
    assert crew.browsers["carl"].post(path, {"title": "Oars"}).status_code < 400
    assert Conversation.objects.get(pk=crew.conversation.pk).title == "Oars"


def test_trash_of_space_is_its_contributors_while_they_are_in_it(crew: Crew) -> None:
    carl, rosa = crew.browsers["carl"], crew.browsers["rosa"]
    page = carl.post(f"{crew.conversation.get_absolute_url()}/delete", follow=True).content.decode()
    assert "is in the trash of: Boat house" in page
    restore = {"action": "restore", "kind": "conversation", "id": crew.conversation.pk}
    assert carl.post("/trash/change", restore).status_code == 404
    for browser in (carl, rosa):
        browser.post("/spaces/use", {"space": crew.space})
        assert f'name="id" value="{crew.conversation.pk}"' in text_of(browser, "/trash")
    assert rosa.post("/trash/change", restore).status_code == 403
    assert carl.post("/trash/change", restore).status_code == 302
    assert "the oar" in text_of(rosa, "/library")


def test_former_member_sees_nothing_in_next_request(crew: Crew) -> None:
    browser = crew.browsers["rosa"]
    browser.post("/spaces/use", {"space": crew.space})
    assert "the oar" in text_of(browser, "/library")
    rosa = Membership.objects.get(person__username="rosa").person_id
    crew.browsers["mia"].post(crew.page, {"action": "remove", "member": rosa})
    assert "no longer a member" in browser.get("/library", follow=True).content.decode()
    assert "the oar" not in text_of(browser, "/library")
    text_of(browser, crew.conversation.get_absolute_url(), 404)


def test_pages_about_person_stay_the_persons_in_space(crew: Crew) -> None:
    browser = crew.browsers["carl"]
    browser.post("/spaces/use", {"space": crew.space})
    browser.post("/settings/keys", {"name": "laptop", "expires": "30"})
    for path in ("/settings/account", "/settings/keys", "/library"):
        assert "<strong>carl</strong>" in text_of(browser, path)
    assert [key.person.username for key in ApiKey.objects.all()] == ["carl"]


def test_number_of_space_is_no_persons_now_or_later(crew: Crew) -> None:
    assert make_user("late").pk > crew.space
    assert not User.objects.filter(pk=crew.space).exists()


def test_reader_may_request_upkeep_of_space(crew: Crew) -> None:
    reader = Membership.objects.get(role="reader").person_id
    with acting_for(crew.space, person_id=reader):
        assert enqueue_for(crew.space, "convmemory.conversations.tasks.count_for_statistics")
    assert OwnerTask.objects.filter(archive_id=crew.space, func__endswith="count_for_statistics").exists()
