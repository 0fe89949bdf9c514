"""The pages of the files that sessions edited: of a project, of a conversation, and one file with its versions."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from tests.factories import make_conversation, make_user, user_says
from tests.integration.conversations.test_file_edits import agent_edits, write
from tests.integration.conversations.test_why import edit
from tests.support.markup import flat

pytestmark = pytest.mark.django_db
MAX_STATEMENTS = 14
ROOT = "/home/ada/well"


@pytest.fixture
def well(owner: User) -> Conversation:
    return make_conversation(
        owner,
        [
            user_says("Write the pump."),
            *agent_edits(write(f"{ROOT}/src/pump.py", "rate = 40\nhose = 2"), write(f"{ROOT}/README.md", "# Well")),
            user_says("It is too <b>fast</b>."),
            *agent_edits(
                edit(f"{ROOT}/README.md", "# Well", "# The well"), edit(f"{ROOT}/README.md", "# The well", "# Well"),
                edit(f"{ROOT}/src/pump.py", "rate = 40", "rate = 25"), text="The plate says 25 at most.",
            ),
        ],
        project=ROOT, title="The pump",
    )  # fmt: skip


@pytest.fixture
def page(client: Client, owner: User) -> Client:
    client.force_login(owner)
    return client


def text_of(client: Client, address: str, status: int = 200) -> str:
    with CaptureQueriesContext(connection) as statements:
        answer = client.get(address)
    assert answer.status_code == status
    assert len(statements) <= MAX_STATEMENTS, [query["sql"][:150] for query in statements]
    return answer.content.decode()


def test_project_lists_its_files_with_turns_and_last_edit(page: Client, well: Conversation) -> None:
    assert ROOT in text_of(page, "/files")
    listed = text_of(page, f"/files?project={ROOT}")
    assert listed.index("<code>src/pump.py") < listed.index("<code>README.md")
    assert (listed.count("2 turns"), "3 turns" in listed) == (2, False), "a turn counts once, however often it edits"
    assert f"/conversations/{well.pk}?turn=1" in listed
    found = text_of(page, f"/files?project={ROOT}&contains=readme")
    assert "README.md" in found
    assert "<code>src/pump.py" not in found


def test_projects_whose_sessions_edited_no_file_are_not_listed(page: Client, owner: User, well: Conversation) -> None:
    make_conversation(owner, [user_says("When do tulips bloom?")], project="/home/ada/garden")
    make_conversation(owner, [user_says("Is the pump for salt water?")], project=ROOT)
    listed = flat(text_of(page, "/files"))
    assert "?project=%2Fhome%2Fada%2Fgarden" not in listed
    assert re.search(rf"<bdi>well</bdi></a>\s*<span class=\"help\"><bdi>{ROOT}</bdi> ·\s*1 conversation</span>", listed)


def test_file_shows_each_line_with_the_turn_that_wrote_it(page: Client, well: Conversation) -> None:
    shown = text_of(page, f"/files/one?project={ROOT}&path=src/pump.py")
    first, second = shown.index("<code>rate = 25"), shown.index("<code>hose = 2")
    assert f"/conversations/{well.pk}?turn=1" in shown[first - 500 : first]
    assert f"/conversations/{well.pk}?turn=0" in shown[second - 500 : second]
    assert "It is too &lt;b&gt;fast&lt;/b&gt;." in shown
    assert "<b>fast" not in shown
    assert "<code>rate = 40" in text_of(page, f"/files/one?project={ROOT}&path=src/pump.py&version=1")


def test_two_versions_are_compared(page: Client, well: Conversation) -> None:
    shown = flat(text_of(page, f"/files/one?project={ROOT}&path=src/pump.py&version=2&against=1"))
    assert '<span class="is-removed"><span class="diff-sign">-</span>rate = 40' in shown
    assert '<span class="is-added"><span class="diff-sign">+</span>rate = 25' in shown


def test_conversation_leads_to_its_files_and_back(page: Client, well: Conversation) -> None:
    read = page.get(f"/conversations/{well.pk}").content.decode()
    assert f"/conversations/{well.pk}/files" in read
    assert f"/conversations/{well.pk}/files/one?path={ROOT.replace('/', '%2F')}%2Fsrc%2Fpump.py" in read
    listed = text_of(page, f"/conversations/{well.pk}/files")
    assert f"/conversations/{well.pk}/files/one?path=src%2Fpump.py" in listed
    shown = text_of(page, f"/conversations/{well.pk}/files/one?path={ROOT}/src/pump.py")
    assert "<code>rate = 25" in shown
    assert f"/conversations/{well.pk}?turn=1" in shown


def test_outcome_of_turn_leads_to_the_files_of_the_turn_and_back(page: Client, well: Conversation) -> None:
    later = [user_says("And the hose?"), *agent_edits(write(f"{ROOT}/hose.py", "length = 3"))]
    ingest.append_messages(caller=Caller.of(User.objects.get()), conversation_id=well.pk, drafts=later)
    at = f"/conversations/{well.pk}/files?turn=2"
    read = flat(text_of(page, f"/conversations/{well.pk}"))
    assert f'<a href="{at}" title="/home/ada/well/hose.py">hose.py</a>' in read
    listed = text_of(page, at)
    assert "<code>hose.py" in listed
    assert "<code>src/pump.py" not in listed
    assert f'href="/conversations/{well.pk}?turn=2#turn-2"' in listed
    assert f'<a href="/conversations/{well.pk}/files">' in listed
    assert '<input type="hidden" name="turn" value="2">' in listed
    assert "<code>src/pump.py" in text_of(page, f"/conversations/{well.pk}/files")
    for turn in (9, 10**12):
        shown = text_of(page, f"/conversations/{well.pk}/files?turn={turn}")
        assert "No archived session edited a file here." in shown


def test_unknown_parameters_and_files_are_refused_or_ignored(page: Client, well: Conversation) -> None:
    text_of(page, f"/files/one?project={ROOT}&path=nothing.py", 404)
    text_of(page, "/files/one", 404)
    assert "<code>rate = 25" in text_of(page, f"/files/one?project={ROOT}&path=src/pump.py&version=99&against=x")
    assert "No files" in text_of(page, "/files?project=/nowhere&from=99999999999")


def test_files_of_others_are_unknown(client: Client, well: Conversation) -> None:
    client.force_login(make_user())
    assert "<code>src/pump.py" not in text_of(client, f"/files?project={ROOT}")
    text_of(client, f"/files/one?project={ROOT}&path=src/pump.py", 404)
    text_of(client, f"/conversations/{well.pk}/files", 404)
    text_of(client, f"/conversations/{well.pk}/files/one?path=src/pump.py", 404)
