"""Titles of coding sessions are made of what they did; the owner's and the source's own titles stay."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.numbering import renew_outcomes
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import EXTRACTED_TITLE, OWN_TITLE, TITLE_VERSION, Conversation
from tests.factories import assistant_says, make_conversation, make_user, user_says

pytestmark = pytest.mark.django_db
COMMIT = "git add . && git commit -m 'Bake the rye at 230 degrees'"


def runs(command: str, *, ends: bool = True) -> list[MessageDraft]:
    call = ToolCallPart(f"call-{command}", "Bash", {"command": command})
    result = ToolResultPart(call.id, "done", is_error=not ends)
    return [
        MessageDraft(role="assistant", parts=(TextPart("I run it."), call)),
        MessageDraft(role="tool", parts=(result,)),
        assistant_says("It ran."),
    ]


def writes(path: str, **values: Any) -> list[MessageDraft]:
    call = ToolCallPart(f"call-{path}", "Write", {"file_path": path, "content": "x"})
    return [MessageDraft(role="assistant", parts=(TextPart("I write."), call), **values), assistant_says("Written.")]


def session(owner: User, *drafts: MessageDraft, title: str = "") -> Conversation:
    return make_conversation(
        owner, list(drafts), title=title, source="codex", source_id="rye", project="/srv/bakery", agent="codex"
    )


def titled(conversation: Conversation) -> tuple[str, int | None]:
    conversation.refresh_from_db()
    return conversation.title, conversation.title_version


def test_first_commit_that_succeeded_gives_the_title(owner: User) -> None:
    failed = runs("git commit -m 'Bake it cold'", ends=False)
    made = session(owner, user_says("i see four flat loaves?"), *failed, *runs(COMMIT))
    assert titled(made) == ("Bake the rye at 230 degrees", EXTRACTED_TITLE)


def test_commit_of_a_later_turn_gives_the_title_once(owner: User) -> None:
    made = session(owner, user_says("i see four flat loaves?"), assistant_says("Yes, four."))
    assert titled(made) == ("i see four flat loaves?", TITLE_VERSION)
    caller = Caller.of(owner)
    for command in (COMMIT, "git commit -m 'Sweep the bakery floor'"):
        more = [user_says("go on with it"), *runs(command)]
        ingest.append_messages(caller=caller, conversation_id=made.pk, drafts=more)
    assert titled(made) == ("Bake the rye at 230 degrees", EXTRACTED_TITLE)


def test_question_of_few_words_gets_the_branch_or_the_files(owner: User) -> None:
    asks = user_says("fix tests")
    assert titled(session(owner, asks, *writes("/srv/bakery/rye_test.py")))[0] == "fix tests · rye_test.py"
    raw = json.dumps({"type": "user", "gitBranch": "ida/bake-the-rye"}).encode()
    on_branch = MessageDraft(role="user", parts=asks.parts, raw=raw, source_key="one")
    made = session(make_user(), on_branch, *writes("/srv/bakery/rye_test.py"))
    assert titled(made)[0] == "fix tests · bake-the-rye"


def test_title_of_source_stays(owner: User) -> None:
    made = session(owner, user_says("i see four flat loaves?"), *runs(COMMIT), title="Flat loaves")
    assert titled(made) == ("Flat loaves", TITLE_VERSION)


def test_question_as_title_of_source_does_not_replace_extracted_title_and_another_does(owner: User) -> None:
    asked = "i see four flat loaves on the table of the large bakery, and I do not see why they are flat?"
    drafts = [user_says(asked), *runs(COMMIT)]
    made = session(owner, *drafts, title=f"{asked[:50]}…")
    assert titled(made) == ("Bake the rye at 230 degrees", EXTRACTED_TITLE)
    for title, expected in ((f"{asked[:50]}…", "Bake the rye at 230 degrees"), ("Flat loaves", "Flat loaves")):
        again = ConversationDraft(messages=drafts, title=title, source="codex", source_id="rye")
        ingest.sync_conversation(caller=Caller.of(owner), draft=again)
        assert titled(made)[0] == expected


def test_click_gives_the_question_back_for_good(owner: User, client: Client) -> None:
    drafts = [user_says("i see four flat loaves?"), *runs(COMMIT)]
    made = session(owner, *drafts)
    client.force_login(owner)
    page = client.get(made.get_absolute_url()).content.decode()
    assert "Title made from the work in this session." in page
    assert 'name="title" value="i see four flat loaves?"' in page
    client.post(f"/conversations/{made.pk}/rename", {"title": "i see four flat loaves?"})
    assert titled(made) == ("i see four flat loaves?", OWN_TITLE)
    more = [user_says("commit it"), *runs("git commit -m 'Sweep the bakery floor'")]
    ingest.append_messages(caller=Caller.of(owner), conversation_id=made.pk, drafts=more)
    Conversation.objects.filter(pk=made.pk).update(outcome_version=2)
    assert renew_outcomes(limit=10) == 1
    assert titled(made) == ("i see four flat loaves?", OWN_TITLE)
    assert "data-extracted-title" not in client.get(made.get_absolute_url()).content.decode()


def test_chat_without_work_keeps_its_question(owner: User) -> None:
    asks = user_says("# Plan: Bake the rye\n\nHow do I begin?")
    made = make_conversation(owner, [asks, assistant_says("Slowly.")], title="", source="chat", source_id="rye")
    assert titled(made) == ("Plan: Bake the rye How do I begin?", TITLE_VERSION)


def test_worker_makes_titles_of_older_version(owner: User) -> None:
    made = session(owner, user_says("i see four flat loaves?"), *runs(COMMIT))
    Conversation.objects.filter(pk=made.pk).update(title="i see four flat loaves?", title_version=1, outcome_version=2)
    assert renew_outcomes(limit=10) == 1
    assert titled(made) == ("Bake the rye at 230 degrees", EXTRACTED_TITLE)
    assert renew_outcomes(limit=10) == 0
