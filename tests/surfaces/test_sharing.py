"""Share links: who may open them, what they show, when they end, and that they lead to nothing else."""

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import AuditEntry, ShareLink
from convmemory.accounts.spaces import create_space
from convmemory.conversations import sharing
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolCallPart
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from convmemory.core.errors import NotAllowed
from tests.factories import exchange, make_conversation, make_user, user_says
from tests.support.api import Api, problem_of, signed_in
from tests.support.planted_keys import PLANTED, leaks
from tests.surfaces.browser import PHONE, Chromium

PICTURE = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
PAIRS = exchange(("which glaze for the teapot?", "Celadon, twice."), ("and the kiln?", "Cone **ten**."))


@pytest.fixture
def teapot(owner: User, settings: Settings) -> Conversation:
    settings.SHARING = "anybody"
    make_conversation(owner, exchange(("where is the wombat?", "Under the porch.")), title="wombat")
    return make_conversation(owner, PAIRS, title="Teapot")


def share(owner: User, conversation: Conversation, **body: Any) -> str:
    """The path of a new link, made by API."""
    body = {"audience": "anybody"} | body
    answer = Api(owner).send("POST", f"/conversations/{conversation.pk}/share_links", body)
    assert answer.status_code == 201, answer.content
    assert answer.json()["url"].startswith("http://testserver/shared/")
    return str(answer.json()["url"].removeprefix("http://testserver"))


def opened(path: str, client: Client | None = None) -> str:
    answer = (client or Client()).get(path)
    assert answer.status_code == 200, answer.content
    content: Any = answer.streaming_content  # type: ignore[attr-defined]
    return b"".join(content).decode()


@pytest.mark.django_db
def test_link_shows_conversation_as_it_was_shared_and_counts_openings(owner: User, teapot: Conversation) -> None:
    path = share(owner, teapot)
    ingest.append_messages(caller=Caller.of(owner), conversation_id=teapot.pk, drafts=[user_says("and the lid?")])
    page = opened(path)
    assert all(
        said in page for said in ('<h1 dir="auto">Teapot</h1>', "Celadon, twice.", "<strong>ten</strong>", "turn 1")
    )
    assert not any(
        said in page for said in ("and the lid?", "wombat", "csrf", "<script", f"/conversations/{teapot.pk}")
    )
    assert "Messages that were added later are not shown." in page
    Client().head(path)
    (link,) = Api(owner).get("/share_links").json()["results"]
    assert (link["opened_count"], link["conversation_title"], link["turn"]) == (1, "Teapot", None)
    assert link["last_opened_at"]
    assert "url" not in link
    assert sharing.links_of(caller=Caller.of(make_user("eve"))) == []


@pytest.mark.django_db
def test_outcome_on_shared_page_is_that_of_shared_messages(owner: User, settings: Settings) -> None:
    settings.SHARING = "anybody"

    def edits(name: str) -> MessageDraft:
        call = ToolCallPart(name, "Write", {"file_path": f"/p/{name}.py", "content": "x"})
        return MessageDraft("assistant", (TextPart(f"I write {name}."), call))

    made = make_conversation(owner, [user_says("go"), edits("first")])
    path = share(owner, made)
    ingest.append_messages(caller=Caller.of(owner), conversation_id=made.pk, drafts=[edits("later")])
    outcome: Any = made.messages.get(position=0).outcome
    assert outcome["files"] == ["/p/first.py", "/p/later.py"]
    page = opened(path)
    assert '<span title="/p/first.py">first.py</span>' in page
    assert "later.py" not in page


@pytest.mark.django_db
def test_openings_by_others_alone_are_in_the_audit_log(owner: User, teapot: Conversation) -> None:
    path = share(owner, teapot)
    opened(path, signed_in(owner))
    assert not AuditEntry.objects.filter(action="read").exists()
    opened(path, signed_in(make_user("eve")))
    assert AuditEntry.objects.values_list("person__username", flat=True).get(action="read") == "eve"


@pytest.mark.django_db
def test_conversation_of_space_gets_no_link(owner: User, settings: Settings) -> None:
    settings.SHARING = "anybody"
    space = create_space(person=owner, name="Kiln house")
    made = make_conversation(space, PAIRS)
    caller = replace(Caller.of(owner), archive=Caller.of(owner).spaces[0])
    with acting_for(space.pk, person_id=owner.pk), pytest.raises(NotAllowed, match="copy it to your own archive"):
        sharing.create_link(caller=caller, conversation_id=made.pk, turn=None, days=7, audience="anybody")


@pytest.mark.django_db
def test_link_to_turn_follows_its_question_and_shows_no_other(owner: User, teapot: Conversation) -> None:
    path = share(owner, teapot, turn=1, days=7)
    assert "which glaze" not in opened(path)
    assert "and the kiln?" in opened(path)
    teapot.messages.filter(turn_number=1).update(turn_number=None)
    assert Client().get(path).status_code == 404
    assert Api(owner).get("/share_links").json()["results"][0]["is_empty"]
    refused = Api(owner).send("POST", f"/conversations/{teapot.pk}/share_links", {"turn": 9})
    assert problem_of(refused, 404).endswith("has no turn 9: its turns are 0 to 1.")


@pytest.mark.django_db
def test_shared_page_loads_nothing_and_is_not_indexed(owner: User, teapot: Conversation) -> None:
    path = share(owner, teapot)
    for answer in (Client().get(path), Client().get("/shared/wrong")):
        assert answer.headers["X-Robots-Tag"] == "noindex, nofollow"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "no-store" in answer.headers["Cache-Control"]
        assert not answer.cookies
    policy = Client().get(path).headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "frame-ancestors 'none'" in policy


@pytest.mark.django_db
def test_shared_page_masks_keys_that_are_stored_unmasked(owner: User, settings: Settings) -> None:
    settings.SHARING, settings.HIDE_KEYS = "anybody", False
    said = "\n\n".join(f"the {kind} is {text}" for kind, text in PLANTED.items())
    found = make_conversation(owner, exchange((said, "Noted.")), title=f"About {next(iter(PLANTED.values()))}")
    mark = {"kind": "wrong", "note": f"use {next(iter(PLANTED.values()))}"}
    Api(owner).send("POST", f"/conversations/{found.pk}/turns/0/mark", mark)
    page = opened(share(owner, found))
    assert "Noted." in page
    assert leaks(page) == []


@pytest.mark.django_db
def test_shared_page_names_who_shared_it_and_shows_pictures_but_no_paths(owner: User, settings: Settings) -> None:
    settings.SHARING = "anybody"
    User.objects.filter(pk=owner.pk).update(first_name="Ada", last_name="Lane")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
    content = [{"type": "text", "text": "what is this?"}, image]
    lines = [{"role": "user", "content": content}, {"role": "assistant", "content": "A dot."}]
    body = {"title": "Dot", "project": "/home/ada/secret-client/pottery", "messages": lines}
    answer = Api(owner).send("POST", "/conversations", body)
    assert answer.status_code == 201, answer.content
    page = opened(share(owner, Conversation.objects.get(title="Dot")))
    assert "Shared by Ada Lane on" in page
    assert "convmemory</strong></header>" in page
    assert '<span class="speaker">Ada Lane</span>' in page
    assert "pottery" in page
    assert "secret-client" not in page
    assert f'<img src="data:image/png;base64,{PICTURE}"' in page


@pytest.mark.django_db
def test_link_can_be_copied_again_by_its_owner_alone(owner: User, teapot: Conversation) -> None:
    path = share(owner, teapot)
    for address in ("/settings/links", f"/conversations/{teapot.pk}/share"):
        assert f"http://testserver{path}" in signed_in(owner).get(address).content.decode()
    assert path not in signed_in(make_user("eve")).get("/settings/links").content.decode()
    token = path.removeprefix("/shared/")
    assert token not in ShareLink.objects.values_list("token_encrypted", flat=True).get()
    assert token not in Api(owner).get("/share_links").content.decode()
    ShareLink.objects.update(token_encrypted="")  # of a link that was made before tokens were stored
    assert path not in signed_in(owner).get("/settings/links").content.decode()


@pytest.mark.django_db
def test_wrong_expired_revoked_and_deleted_links_get_same_answer(
    owner: User, teapot: Conversation, settings: Settings
) -> None:
    def refusal(path: str) -> str:
        answer = Client().get(path)
        assert answer.status_code == 404
        return re.sub(r"nonce-\S+", "", answer.content.decode())

    wrong = refusal("/shared/wrong")
    assert "Ask the person who gave it to you for a new one." in wrong
    expired = share(owner, teapot, days=1)
    ShareLink.objects.update(expires_at=timezone.now())
    assert refusal(expired) == wrong
    revoked = share(owner, teapot)
    number = Api(owner).get("/share_links").json()["results"][0]["id"]
    assert Api(make_user("eve")).client.delete(f"/api/v1/share_links/{number}").status_code == 404
    assert opened(revoked)
    assert Api(owner).client.delete(f"/api/v1/share_links/{number}").status_code == 204
    assert refusal(revoked) == wrong
    path = share(owner, teapot)
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert refusal(path) == wrong
    User.objects.filter(pk=owner.pk).update(is_active=True)
    settings.SHARING = "off"
    assert "Sharing is off on this server" in refusal(path)
    assert "Sharing is off on this server" in refusal("/shared/wrong")
    settings.SHARING = "anybody"
    assert opened(path)
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=teapot.pk)
    assert refusal(path) == wrong
    ingest.delete_for_good(caller=Caller.of(owner), conversation_id=teapot.pk)
    assert not ShareLink.objects.exists()


@pytest.mark.django_db
def test_link_for_people_asks_others_to_sign_in(owner: User, teapot: Conversation, settings: Settings) -> None:
    path, open_to_all = share(owner, teapot, audience="people"), share(owner, teapot)
    answer = Client().get(path)
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/login?next={path}")
    assert (
        "to people who have an account here: sign in to read it" in Client().get(f"/login?next={path}").content.decode()
    )
    eve = signed_in(make_user("eve"))
    assert "Celadon" in opened(path, eve)
    for address in (f"/conversations/{teapot.pk}", f"/conversations/{teapot.pk}/share", "/settings/links/1/revoke"):
        assert eve.get(address).status_code == 404
    assert "Celadon" in opened(open_to_all)
    settings.SHARING = "people"  # also for links that were made before
    assert Client().get(open_to_all).status_code == 302
    assert Api(owner).get("/share_links").json()["results"][0]["audience"] == "people"


@pytest.mark.django_db
def test_token_with_another_conversation_shows_only_its_own(owner: User, teapot: Conversation) -> None:
    path = share(owner, teapot)
    foreign = make_conversation(make_user("eve"), exchange(("is the gecko fed?", "The gecko is fed.")))
    own = Conversation.objects.get(title="wombat")
    for other in (foreign, own):
        for query in (f"?conversation={other.pk}", f"?id={other.pk}&turn=0", f"?conversation_id={other.pk}"):
            page = opened(path + query)
            assert "Celadon" in page
            assert not any(said in page for said in ("gecko", "wombat"))
        assert Client().get(f"{path}/{other.pk}").status_code == 404
    token = path.rpartition("/")[2]
    for address in ("/share_links", f"/conversations/{teapot.pk}", f"/conversations/{teapot.pk}/export"):
        assert Client(headers={"Authorization": f"Bearer {token}"}).get(f"/api/v1{address}").status_code == 401
    # A row that names another owner's conversation, however it came there, shows nothing of it.
    ShareLink.objects.update(conversation_id=foreign.pk, last_message_id=F("last_message_id") + 1_000)
    assert Client().get(path).status_code == 404


@pytest.mark.django_db
def test_link_ends_after_default_unless_form_says_never(owner: User, teapot: Conversation) -> None:
    address = f"/conversations/{teapot.pk}/share"
    ends = []
    for form in ({}, {"expires": "1"}, {"expires": ""}):
        assert signed_in(owner).post(address, form).status_code == 302
        ends.append(ShareLink.objects.latest("pk").expires_at)
    assert [end and round((end - timezone.now()) / timedelta(days=1)) for end in ends] == [7, 1, None]


@pytest.mark.django_db
def test_link_without_posted_values_shows_whole_conversation_for_days_of_server(
    owner: User, teapot: Conversation, settings: Settings
) -> None:
    settings.SHARING_MAX_DAYS = 3
    for form in ({}, {"turn": ""}):
        assert signed_in(owner).post(f"/conversations/{teapot.pk}/share", form).status_code == 302
    links = ShareLink.objects.order_by("pk")
    assert [link.opening_message_id for link in links] == [None, None]
    ends = [link.expires_at for link in links]
    assert [end and round((end - timezone.now()) / timedelta(days=1)) for end in ends] == [3, 3]
    assert all(link.people_only for link in links)


@pytest.mark.django_db
def test_server_limits_audience_and_days_of_links(owner: User, teapot: Conversation, settings: Settings) -> None:
    def refused(**body: Any) -> str:
        return problem_of(Api(owner).send("POST", f"/conversations/{teapot.pk}/share_links", body), 422)

    for_ever = share(owner, teapot)
    ShareLink.objects.update(created_at=timezone.now() - timedelta(days=14))
    settings.SHARING, settings.SHARING_MAX_DAYS = "people", 14
    assert Client().get(for_ever).status_code == 404  # the maximum counts for links of before
    assert refused(audience="anybody", days=1).endswith("share with people.")
    assert "14 days at most" in refused()
    assert "use 1 to 14" in refused(days=15)
    page = signed_in(owner).get(f"/conversations/{teapot.pk}/share").content.decode()
    assert "signed in, and for at most 14 days." in page
    assert re.findall(r'<option value="(\w*)"', page) == ["1", "7", "14", "people"]
    settings.SHARING = "off"
    body: dict[str, Any] = {"days": 1}
    assert "SHARING" in problem_of(Api(owner).send("POST", f"/conversations/{teapot.pk}/share_links", body), 403)
    assert "Sharing is off" in signed_in(owner).get(f"/conversations/{teapot.pk}/share").content.decode()


@pytest.mark.essential
@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_link_is_made_opened_without_session_and_revoked(
    visit: Callable[..., None], chromium: Chromium, live_server: Any, teapot: Conversation
) -> None:
    def make(page: Page) -> str:
        page.get_by_label("What to do with this conversation").click()
        page.get_by_role("link", name="Share…").click()
        page.get_by_label("Who may open it").select_option("anybody")
        page.get_by_role("button", name="Make a link").click()
        row = page.get_by_role("row", name="Teapot")
        expect(row.get_by_role("button", name="Copied")).to_be_visible()
        expect(row).to_contain_text("any person with the link")
        page.reload()
        row.get_by_role("button", name="Copy").click()
        expect(row.get_by_role("button", name="Copied")).to_be_visible()
        copied = str(page.evaluate("navigator.clipboard.readText()"))
        page.evaluate("navigator.clipboard.writeText('')")
        page.add_init_script("delete Navigator.prototype.clipboard")  # as over HTTP without encryption
        page.reload()
        row.get_by_role("button", name="Copy").click()
        expect(row.get_by_role("button", name="Copied")).to_be_visible()
        page.get_by_label("Only turn").evaluate("field => (field.type = 'text')")
        page.get_by_label("Only turn").press("Control+V")
        expect(page.get_by_label("Only turn")).to_have_value(copied)
        return copied

    address: str = chromium.visit(
        live_server.url, make, visitor=teapot.archive.person, at=f"/conversations/{teapot.pk}"
    )

    def read(page: Page) -> None:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        expect(page.get_by_role("heading", name="Teapot", level=1)).to_be_visible()
        expect(page.get_by_text("Celadon, twice.")).to_be_visible()
        assert asked == [address]
        assert page.context.cookies() == []
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]

    chromium.visit(live_server.url, read, width=PHONE["width"], height=PHONE["height"])

    def revoke(page: Page) -> None:
        expect(page.get_by_role("row", name="Teapot")).to_contain_text("1 time")
        page.get_by_role("link", name="Revoke the link").click()
        page.get_by_role("button", name="Revoke").click()
        expect(page.get_by_text("The link is revoked")).to_be_visible()

    chromium.visit(live_server.url, revoke, visitor=teapot.archive.person, at="/settings/links")

    def find_nothing(page: Page) -> None:
        answer = page.request.get(address)
        assert answer.status == 404
        assert "This link shows nothing" in answer.text()

    chromium.visit(live_server.url, find_nothing)
