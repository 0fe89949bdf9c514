"""A page asks the database as often for many rows as for one."""

from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.accounts.spaces import create_space
from convmemory.chat.agents import create_agent
from convmemory.conversations import curating
from convmemory.conversations.importing.links import link_children
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import AttachmentPart, TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import EXTRACTED_TITLE, Conversation, FileEdit, Import
from convmemory.conversations.statistics import count_changed
from convmemory.core.acting import in_archive_of
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.support.api import signed_in
from tests.support.documents import GUIDE, indexed, upload
from tests.support.ten_years import make_ten_years

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents_here")]

ROOMS = (
    "/", "/search", "/search?q=oven", "/library", "/documents", "/statistics", "/import", "/recall?query=oven", "/chat",
    "/agents", "/settings/keys", "/settings/links", "/settings/connect", "/settings/data",
)  # fmt: skip
OF_A_CONVERSATION = (
    "", "?turn=0", "?turn=0&show=questions", "/outline", "/summaries", "/events", "/context",
    "/documents",
)  # fmt: skip
COUNTS_EVERY_TABLE = "/settings/data"
MANY, MOST = 3, 25


def worked_turn(number: int) -> list[MessageDraft]:
    """A question with an attachment, a step of work and an answer."""
    picture = AttachmentPart(name=f"oven-{number}.png", media_type="image/png")
    return [
        MessageDraft("user", (TextPart(f"how hot is oven {number}?"), picture)),
        MessageDraft("assistant", (TextPart("I look."), ToolCallPart(f"c{number}", "Bash", {"command": "heat"}))),
        MessageDraft("tool", (ToolResultPart(f"c{number}", "hot"),)),
        MessageDraft("assistant", (TextPart("**Hot.**"),), model=f"model {number}"),
    ]


def add_one_of_each(owner: User, main: Conversation, number: int) -> None:
    """One more of all that the pages list, and a turn, a tag and a child of the main conversation."""
    ingest.append_messages(caller=Caller.of(owner), conversation_id=main.pk, drafts=worked_turn(number))
    curating.add_tag(caller=Caller.of(owner), conversation_ids=[main.pk], name=f"tag {number}")
    for parent in ("", "main"):
        made = make_conversation(
            owner, exchange((f"is oven {number} hot?", "Yes.")), title=f"Oven {number}", agent=f"agent {number}",
            project=f"/src/oven {number}", source="codex", source_id=f"{parent} {number}", parent_source_id=parent,
        )  # fmt: skip
        curating.add_tag(caller=Caller.of(owner), conversation_ids=[made.pk], name=f"tag {number}")
        index_conversation(conversation_id=made.pk)
    link_children(caller=Caller.of(owner))
    index_conversation(conversation_id=main.pk)
    indexed(upload(owner, GUIDE, f"guide-{number}.md"))
    Import.objects.create(archive_id=owner.pk, name=f"{number}.zip", size=1, file="x", state="failed", error="damaged")
    create_agent(caller=Caller.of(owner), values={"name": f"Baker {number}"})
    create_key(person=owner, name=f"Laptop {number}")
    while count_changed(archive_id=owner.pk):
        pass


def queries_of(client: Client, address: str) -> int:
    """Return the number of queries of a second request, when caches are filled."""
    assert client.get(address).status_code == 200, address
    with CaptureQueriesContext(connection) as queries:
        client.get(address)
    return len(queries)


def test_page_costs_same_for_one_and_for_many(owner: User) -> None:
    client = signed_in(owner)
    main = make_conversation(owner, title="Ovens", source="codex", source_id="main")
    addresses = (*ROOMS, *(main.get_absolute_url() + rest for rest in OF_A_CONVERSATION))
    add_one_of_each(owner, main, 0)
    of_one = {address: queries_of(client, address) for address in addresses}
    for number in range(1, MANY):
        add_one_of_each(owner, main, number)
    of_many = {address: queries_of(client, address) for address in addresses}
    assert {address: count for address, count in of_many.items() if count > of_one[address]} == {}
    assert {address for address, count in of_many.items() if count > MOST} <= {COUNTS_EVERY_TABLE}


WALK = {
    "/": 13, "/library": 12, "/documents": 8, "/statistics": 9, "/files": 5,
    "/files?project={project}": 8, "/files/one?project={project}&path={path}": 12,
    "/documents/{document}": 8, "/conversations/{conversation}": 14, "/conversations/{conversation}?turn=0": 14,
    "/conversations/{conversation}?turn=0&show=questions": 14, "/conversations/{child}?turn=0": 14,
    "/search?q=deadlock": 8, "/search?q=Why+does+this+happen+with+deadlock%3F": 9, "/search?q=xyzzyqwvutm": 13,
    "/search?q=deadlock+has:code+after:2020+-amber": 12, "/search?q=deadlock+-amber": 11, "/search?q=is:starred": 8,
}  # fmt: skip
"""Pages, in the order in which a person comes from one to the next, and the most statements of each."""


@pytest.mark.slow
def test_pages_of_ten_years_send_few_statements(owner: User) -> None:
    client = signed_in(owner)
    make_ten_years(owner, 16)
    edited = FileEdit.objects.filter(archive_id=owner.pk).values("conversation_id")[:1]
    worked = Conversation.objects.get(pk__in=edited)
    curating.add_tag(caller=Caller.of(owner), conversation_ids=[worked.pk], name="soil")
    child = make_conversation(owner, worked_turn(1), source="made-up", parent_source_id=worked.source_id)
    link_children(caller=Caller.of(owner))
    Conversation.objects.filter(pk__in=[worked.pk, child.pk]).update(title_version=EXTRACTED_TITLE)
    for number in Conversation.objects.filter(archive_id=owner.pk).values_list("pk", flat=True):
        index_conversation(conversation_id=number)
    while count_changed(archive_id=owner.pk):
        pass
    names = {
        "path": quote(FileEdit.objects.filter(conversation=worked).values_list("path", flat=True)[0]),
        "project": quote(worked.project), "conversation": worked.pk, "child": child.pk,
        "document": indexed(upload(owner, GUIDE, "guide.md")).pk,
    }  # fmt: skip
    counts = {address: queries_of(client, address.format(**names)) for address in WALK}
    assert {address: count for address, count in counts.items() if count > WALK[address]} == {}
    for name in ("Boats", "Bikes"):
        space = create_space(person=owner, name=name)
        shared = make_conversation(space, exchange((f"deadlock of the {name}?", "Yes.")))
        with in_archive_of(space.pk):
            index_conversation(conversation_id=shared.pk)
    # Each archive is searched by itself, by three statements.
    assert queries_of(client, "/search?q=deadlock") <= WALK["/search?q=deadlock"] + 2 * 3
