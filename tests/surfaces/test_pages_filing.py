"""Folders and tags of documents on their page: given to many, filtered by, never to or from other archives."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from convmemory.accounts.callers import Caller
from convmemory.conversations.curating import MAX_TAGS
from convmemory.documents.filing import filing_of
from convmemory.documents.models import Document
from tests.factories import make_user
from tests.support.documents import upload

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents_here")]


def change(browser: Client, *chosen: Document, **values: str) -> str:
    """Send the form of the page, and return the page that it leads to."""
    body = {"chosen": [row.pk for row in chosen], "next": "/documents", **values}
    answer = browser.post("/documents/change", body, follow=True)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def test_many_documents_are_tagged_moved_and_filtered(owner: User, browser: Client) -> None:
    lease, offer, recipe = (upload(owner, f"# {name}", f"{name}.md") for name in ("lease", "offer", "recipe"))
    assert "2 documents are changed." in change(browser, lease, offer, action="tag", tag="#due <b>")
    assert "1 document is changed." in change(browser, offer, recipe, lease, action="tag", tag="due <b>")
    change(browser, recipe, action="untag", tag="due <b>")
    change(browser, lease, action="folder", folder=" Contracts // 2026 ")
    text = change(browser, offer, action="folder", folder="Contracts")
    assert filing_of(caller=Caller.of(owner)).folders == [("Contracts", 2), ("Contracts/2026", 1)]
    assert "#due &lt;b&gt;" in text
    for query, names in (
        ("folder=Contracts", {"lease.md", "offer.md"}),
        ("folder=Contracts/2026", {"lease.md"}),
        ("tag=due+%3Cb%3E", {"lease.md", "offer.md"}),
        ("folder=Contracts&tag=none", set()),
        ("folder=Contract_", set()),
    ):
        page = browser.get(f"/documents?{query}").content.decode()
        assert {name for name in ("lease.md", "offer.md", "recipe.md") if f">{name}" in page} == names, query
    change(browser, lease, offer, action="folder", folder="")
    assert filing_of(caller=Caller.of(owner)).folders == []


def test_documents_of_others_are_not_filed_and_their_folders_not_shown(owner: User, browser: Client) -> None:
    stranger = make_user("stranger")
    foreign = upload(stranger, "# secret", "secret.md")
    Document.objects.filter(pk=foreign.pk).update(folder="Foreign folder", tags=["foreign"])
    own = upload(owner, "# mine", "mine.md")
    for values in (
        {"action": "tag", "tag": "x"},
        {"action": "folder", "folder": "x"},
        {"action": "untag", "tag": "foreign"},
    ):
        assert "1 document" in change(browser, own, foreign, **values) or values["action"] == "untag"
    foreign.refresh_from_db()
    assert (foreign.folder, foreign.tags) == ("Foreign folder", ["foreign"])
    page = browser.get("/documents").content.decode()
    assert "Foreign folder" not in page
    assert "#foreign" not in page


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"action": "tag", "tag": " # "}, "A tag cannot be empty"),
        ({"action": "folder", "folder": "a/" * 9}, "A folder has at most 200 characters in 8 parts."),
        ({"action": "folder", "folder": "x" * 150 + "/" + "y" * 150}, "A folder has at most 200 characters"),
    ],
)
def test_invalid_folder_or_tag_is_refused_with_reason(
    owner: User, browser: Client, values: dict[str, str], reason: str
) -> None:
    own = upload(owner, "# mine", "mine.md")
    assert reason in change(browser, own, **values)
    own.refresh_from_db()
    assert (own.folder, own.tags) == ("", [])


def test_twenty_first_tag_is_refused(owner: User, browser: Client) -> None:
    own = upload(owner, "# mine", "mine.md")
    Document.objects.filter(pk=own.pk).update(tags=[f"t{number}" for number in range(MAX_TAGS)])
    assert "at most 20 tags" in change(browser, own, action="tag", tag="more")
    assert "Nothing was chosen" in change(browser, action="tag", tag="more")
