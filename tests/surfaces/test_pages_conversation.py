"""The conversation page: windows around a turn, partials, actions, and foreign conversations not found."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.runner import import_paths
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, EventDraft, MessageDraft
from convmemory.conversations.messages.parts import TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.pages.windows import MESSAGES_BEFORE_TURN, WINDOW_CHARS, WINDOW_MESSAGES, window_around
from convmemory.core.errors import NotFound
from convmemory.tools.registry import run_tool
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.api import Api, signed_in
from tests.support.markup import flat

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
IN_MAIN = {**HTMX, "HX-Target": "main"}


def long_conversation(owner: User, turns: int, **values: Any) -> Conversation:
    pairs = [(f"question {number}", f"answer {number}") for number in range(turns)]
    return make_conversation(owner, exchange(*pairs), title="Long", **values)


def test_page_names_what_it_shows(owner: User, page: Callable[..., str]) -> None:
    conversation = make_conversation(
        owner, exchange(("what?", "**that**")), title="Title", agent="claude-code", project="/home/ada/src/billing"
    )
    text = page(f"/conversations/{conversation.pk}")
    assert '<h1 dir="auto" title="Title"' in text
    assert "claude-code" in text
    assert '<span class="tag" title="/home/ada/src/billing">billing</span>' in text
    assert "1 Jan 2026" in text
    assert "2 messages, 1 turn<" in text
    assert "<strong>that</strong>" in text
    assert text.count("<html") == 1


def test_turn_is_marked_and_reachable_by_fragment(owner: User, page: Callable[..., str]) -> None:
    conversation = long_conversation(owner, 5)
    text = page(f"/conversations/{conversation.pk}?turn=3")
    assert text.count('data-turn="3"') == 2
    assert text.count('id="turn-3"') == 1
    assert text.count("is-target") == 2
    assert text.index('data-turn="3"') < text.index("question 3") < text.index("answer 3")
    assert 'data-target-turn="3"' in text
    assert "the turn you were looking for" in text
    assert f"/conversations/{conversation.pk}?turn=2#turn-2" in text  # the previous turn
    assert f"/conversations/{conversation.pk}?turn=4#turn-4" in text  # the next one


def test_long_conversation_is_shown_in_parts_around_turn(owner: User, page: Callable[..., str]) -> None:
    conversation = long_conversation(owner, 200)
    path = f"/conversations/{conversation.pk}"
    text = page(f"{path}?turn=100")
    assert text.count("data-position=") == WINDOW_MESSAGES
    start = 200 - MESSAGES_BEFORE_TURN
    assert f'href="{path}?earlier={start}&amp;turn=100"' in text
    assert f'href="{path}?later={start + WINDOW_MESSAGES}&amp;turn=100"' in text
    seen = []
    address: str | None = f"{path}?later={start + WINDOW_MESSAGES}"
    while address:
        part = page(address, **HTMX)
        assert "<html" not in part
        assert "?earlier=" not in part
        seen += [int(piece.split('"')[0]) for piece in part.split('data-position="')[1:]]
        address = unescape(part.split('hx-get="')[-1].split('"')[0]) if "?later=" in part else None
    assert seen == list(range(start + WINDOW_MESSAGES, 400))


def test_earlier_messages_continue_without_gap_and_without_doubling_anchor(
    owner: User, page: Callable[..., str]
) -> None:
    pieces = [user_says("q"), *(assistant_says(f"step {number}") for number in range(100))]
    conversation = make_conversation(owner, [*exchange(("first", "one")), *pieces])
    path = f"/conversations/{conversation.pk}"
    earlier = page(f"{path}?earlier=60", **HTMX)
    later = page(f"{path}?later=60", **HTMX)
    positions = [int(piece.split('"')[0]) for piece in (earlier + later).split('data-position="')[1:]]
    assert positions == list(range(20, 100))
    assert 'id="turn-1"' not in earlier + later  # the turn opens at position 2
    assert page(f"{path}?earlier=20", **HTMX).count('id="turn-1"') == 1
    whole_page = page(f"{path}?earlier=60")  # the same address as a plain link
    assert "<html" in whole_page
    assert "?earlier=20" in whole_page
    assert "?later=60" in whole_page


def test_window_of_giants_is_shortened(owner: User) -> None:
    giants = exchange(*[(f"q{number}", "x " * 10_000) for number in range(40)])
    conversation = make_conversation(owner, giants)
    window = window_around(conversation, 20)
    shown = sum(min(len(str(part)), 12_000) for message in window.messages for part in message.parts)
    assert shown < WINDOW_CHARS * 1.2
    assert any(message.turn_number == 20 for message in window.messages)
    assert window.earlier == window.messages[0].position
    assert window.later == window.messages[-1].position + 1


@pytest.mark.slow
def test_opening_conversation_of_ten_thousand_messages_takes_few_queries(
    owner: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    conversation = make_conversation(owner)
    rows = (
        Message(
            archive_id=owner.pk,
            conversation=conversation,
            position=position,
            role="assistant" if position % 2 else "user",
            is_real_user=position % 2 == 0,
            parts=[{"type": "text", "text": f"**message** {position}\n\n```python\nprint({position})\n```\n" * 5}],
            turn_number=position // 2,
            content_hash=bytes(32),
        )
        for position in range(10_000)
    )
    Message.objects.bulk_create(rows, batch_size=2_000)
    Conversation.objects.filter(pk=conversation.pk).update(message_count=10_000, turn_count=5_000, turns_version=1)
    client = signed_in(owner)
    path = f"/conversations/{conversation.pk}?turn=2500"
    # session, user, conversation, place of the turn, messages, children, tags, list; agents, the usual one, replies
    with django_assert_num_queries(13):
        assert client.get(path).status_code == 200
    with django_assert_num_queries(11):  # no list
        assert client.get(path, headers=IN_MAIN).status_code == 200
    with django_assert_num_queries(7):  # session, user, archive, conversation, messages, facts, replies
        client.get(f"/conversations/{conversation.pk}?later=7000", headers=HTMX)


def test_htmx_gets_main_area_alone(owner: User, page: Callable[..., str]) -> None:
    conversation = long_conversation(owner, 3)
    text = page(f"/conversations/{conversation.pk}?turn=1", **IN_MAIN)
    assert "<html" not in text
    assert "<title>Long · convmemory</title>" in text
    assert 'data-target-turn="1"' in text
    assert 'class="sidebar"' not in text


def test_conversation_page_varies_by_hx_request_and_is_private(owner: User) -> None:
    conversation = long_conversation(owner, 1)
    client = signed_in(owner)
    response = client.get(f"/conversations/{conversation.pk}")
    assert "HX-Request" in response.headers["Vary"]
    assert "private" in response.headers["Cache-Control"]
    assert "unsafe-inline" not in response.headers["Content-Security-Policy"].partition("style-src")[0]


def test_no_page_holds_inline_script(owner: User, page: Callable[..., str]) -> None:
    conversation = long_conversation(owner, 2)
    for path in ("/", "/search?q=question", f"/conversations/{conversation.pk}", "/settings/keys", "/import"):
        text = page(path)
        assert "<script>" not in text
        assert " onclick=" not in text
        assert "https://" not in text.replace("https://evil.example", "")


def test_query_in_address_leads_back_to_its_results(owner: User, page: Callable[..., str]) -> None:
    conversation = long_conversation(owner, 2)
    text = page(f"/conversations/{conversation.pk}?turn=1&q=what+%22now%22&scope=tool")
    assert 'value="what &quot;now&quot;"' in text
    assert "/search?q=what+%22now%22&amp;scope=tool" in text


@pytest.mark.parametrize("turn", ["99", "5000000"])
def test_conversation_page_reports_missing_turn(owner: User, page: Callable[..., str], turn: str) -> None:
    conversation = long_conversation(owner, 2)
    text = page(f"/conversations/{conversation.pk}?turn={turn}")
    assert f"no turn {int(turn) + 1} here: this conversation has 2 turns" in text
    assert "question 0" in text


@pytest.mark.parametrize(
    "query", ["turn=x", "turn=-1", "turn=99999999999", "earlier=²", "later=1.5", "m=x", "m=1&from=-1&to=2"]
)
def test_conversation_page_refuses_invalid_numbers(owner: User, page: Callable[..., str], query: str) -> None:
    conversation = long_conversation(owner, 2)
    assert "is not a number" in page(f"/conversations/{conversation.pk}?{query}", status=422)


def test_conversation_without_messages_opens(owner: User, page: Callable[..., str]) -> None:
    conversation = make_conversation(owner)
    assert "no messages" in page(f"/conversations/{conversation.pk}")
    assert "Untitled conversation" in page(f"/conversations/{conversation.pk}")


def test_thinking_and_tools_are_folded(owner: User, page: Callable[..., str]) -> None:
    work = MessageDraft(
        "assistant", (ThinkingPart("let me think"), ToolCallPart("t1", "Bash", {"command": "ls -l"}), TextPart("done"))
    )
    answer = MessageDraft("user", (ToolResultPart("t1", "total 0\n" * 2_000),))
    conversation = make_conversation(owner, [user_says("go"), work, answer, assistant_says("so")])
    path = f"/conversations/{conversation.pk}"
    text = flat(page(path))
    assert text.count('<details class="part fold') == 2  # the thought, and the call with its result
    assert '<p class="step-label">Result</p>' in text
    assert "Show the other" in text
    whole = page(f"{path}/messages/2/parts/0")
    assert whole.count("total 0") == 2_000
    assert "<html" in whole
    part = page(f"{path}/messages/2/parts/0", **HTMX)
    assert part.count("total 0") == 2_000
    assert "<html" not in part
    page(f"{path}/messages/2/parts/7", status=404)
    page(f"{path}/messages/77777777777777777777/parts/0", status=404)


def test_recalled_text_is_folded_under_text_it_was_added_to(owner: User, page: Callable[..., str]) -> None:
    text = 'What now?\n<recalled-memory mark="ab12">\nUser: <b>old words</b>\n</recalled-memory mark="ab12">'
    conversation = make_conversation(owner, [user_says(text), assistant_says("This.")])
    shown = page(f"/conversations/{conversation.pk}")
    assert conversation.title == "What now?"
    said, _, folded = shown[shown.index('data-position="0"') :].partition('<details class="fold')
    assert "What now?" in said
    assert "old words" not in said
    assert "&lt;b&gt;old words&lt;/b&gt;" in folded
    assert "Recalled by convmemory" in folded


def test_html_in_titles_and_names_is_text(owner: User, page: Callable[..., str]) -> None:
    bad = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    call = MessageDraft("assistant", (ToolCallPart(bad, bad, {bad: bad}),))
    said = [user_says(bad, name=bad), assistant_says(bad, model=bad), call]
    conversation = make_conversation(owner, said, title=bad, agent=bad, project=bad)
    child = make_conversation(owner, title=bad)
    Conversation.objects.filter(pk=child.pk).update(parent=conversation)
    for path in (f"/conversations/{conversation.pk}", f"/conversations/{child.pk}", "/", "/search/filters"):
        text = page(path)
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "&lt;script&gt;" in text


def test_turn_is_marked_on_its_page_and_undone(owner: User, browser: Client, page: Callable[..., str]) -> None:
    conversation = long_conversation(owner, 2)
    path = f"/conversations/{conversation.pk}"
    assert page(path).count(f'action="{path}/turns/') == 2
    marked = browser.post(f"{path}/turns/1/mark", {"kind": "wrong", "note": "it is <b>2</b>"}, follow=True)
    text = marked.content.decode()
    assert "You marked this turn as wrong" in text
    assert "<bdi>it is &lt;b&gt;2&lt;/b&gt;</bdi>" in text
    assert "The mark of turn 2 is changed." in text
    assert "marked as wrong" in page("/search?q=question+1&mode=full_text")
    assert "You marked this turn as wrong" in page(f"/search/preview{path}?turn=1")
    undone = browser.post(f"{path}/turns/1/mark", {"kind": "", "note": "", "undoes": "1"}, follow=True).content.decode()
    assert "Undone." in undone
    assert "You marked" not in undone
    assert "The mark of turn" not in undone


def test_undo_of_mark_restores_earlier_one(owner: User, browser: Client) -> None:
    conversation = long_conversation(owner, 1)
    path = f"/conversations/{conversation.pk}/turns/0/mark"
    browser.post(path, {"kind": "outdated", "note": "was v1"})
    text = flat(browser.post(path, {"kind": "", "note": ""}, follow=True).content.decode())
    notice = text[text.index("undo-notice") :].partition("</form>")[0]
    assert 'name="kind" value="outdated"' in notice
    assert 'name="note" value="was v1"' in notice


def test_parent_and_children_are_linked(owner: User, page: Callable[..., str]) -> None:
    parent = make_conversation(owner, title="The parent")
    child = make_conversation(owner, title="The child")
    Conversation.objects.filter(pk=child.pk).update(parent=parent)
    assert "Started from" in page(f"/conversations/{child.pk}")
    text = page(f"/conversations/{parent.pk}")
    assert f'<a href="/conversations/{child.pk}"><bdi>The child</bdi></a>' in text


@pytest.mark.parametrize("later_first", [False, True])
def test_continued_sessions_lead_to_each_other(
    later_first: bool, owner: User, page: Callable[..., str], tmp_path: Path
) -> None:
    names = ("3f0a0000-0000-4000-8000-000000000001", "3f0a0000-0000-4000-8000-000000000002")
    for number, name in enumerate(names):
        said = {"role": "user", "content": f"Water bed {number}"}, {"role": "assistant", "content": "Done."}
        day = f"2026-02-0{number + 1}T10:00"
        lines = [{"type": line["role"], "uuid": f"{name}-{place}", "sessionId": name, "message": line,
                  "timestamp": f"{day}:0{place}Z"} for place, line in enumerate(said)]  # fmt: skip
        if not number:
            lines.append({"type": "continued-in", "sessionId": name, "continuedInSessionId": names[1]})
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name in sorted(names, reverse=later_first):
        import_paths(caller=Caller.of(owner), paths=[tmp_path / f"{name}.jsonl"])
    earlier, later = (Conversation.objects.get(source_id=name) for name in names)
    assert f'Continued in <a href="/conversations/{later.pk}">' in page(f"/conversations/{earlier.pk}")
    assert f'Continues <a href="/conversations/{earlier.pk}">' in page(f"/conversations/{later.pk}")


def test_foreign_parents_and_children_are_not_shown(owner: User, page: Callable[..., str]) -> None:
    mine = make_conversation(owner, title="mine")
    foreign = make_conversation(make_user(), title="foreign secret")
    Conversation.objects.filter(pk=foreign.pk).update(parent=mine)
    assert "foreign secret" not in page(f"/conversations/{mine.pk}")
    Conversation.objects.filter(pk=foreign.pk).update(parent=None)
    Conversation.objects.filter(pk=mine.pk).update(parent=foreign)
    assert "foreign secret" not in page(f"/conversations/{mine.pk}")
    Conversation.objects.update(parent=None)  # the database refuses both when the transaction ends


def test_foreign_and_unknown_conversations_are_same_page(owner: User, page: Callable[..., str]) -> None:
    foreign = make_conversation(make_user(), exchange(("secret?", "secret!")), title="secret")
    answers = {
        page(f"/conversations/{number}{rest}", status=404)
        for number in (foreign.pk, foreign.pk + 1_000, 10**30)
        for rest in ("", "?turn=0", "/messages/0/parts/0", "/delete")
    }
    assert len(answers) == 1
    (text,) = answers
    assert "secret" not in text
    assert "Nothing here" in text


def test_foreign_conversations_cannot_be_changed(owner: User) -> None:
    foreign = make_conversation(make_user(), title="theirs")
    client = signed_in(owner)
    for action in ("rename", "archive", "delete"):
        response = client.post(f"/conversations/{foreign.pk}/{action}", {"title": "mine now"})
        assert response.status_code == 404
    foreign.refresh_from_db()
    assert (foreign.title, foreign.archived_at) == ("theirs", None)


def test_pages_without_session_redirect_to_login(owner: User) -> None:
    conversation = long_conversation(owner, 1)
    paths = ["/", "/search?q=question", f"/conversations/{conversation.pk}", "/settings/keys", "/settings/password",
             "/import", "/index/progress", "/search/filters", "/search/hits-in?q=question&conversation=1"]  # fmt: skip
    for path in paths:
        response = Client().get(path)
        assert response.status_code == 302
        assert response.headers["Location"].startswith("/login?next=")
    part = Client().get("/search?q=question", headers={**HTMX, "HX-Current-URL": "http://testserver/conversations/1"})
    assert part.headers["HX-Redirect"] == "/login?next=/conversations/1&ended=1"
    assert b"question" not in part.content


def test_rename_archive_and_delete(owner: User, settings: Settings) -> None:
    conversation = long_conversation(owner, 1)
    path = f"/conversations/{conversation.pk}"
    client = signed_in(owner)
    assert client.post(f"{path}/rename", {"title": "  Renamed "}).headers["Location"] == path
    assert client.post(f"{path}/rename", {"title": " "}).status_code == 422
    conversation.refresh_from_db()
    assert conversation.title == "Renamed"

    assert "Archived" in client.post(f"{path}/archive", {"archived": "1"}, follow=True).content.decode()
    assert "Renamed" not in client.get("/").content.decode()
    assert "Renamed" in client.get("/?archived=1").content.decode()
    client.post(f"{path}/archive", {"archived": "0"})
    assert "Renamed" in client.get("/").content.decode()

    settings.TRASH_DAYS = 0
    asked = client.post(f"{path}/delete").content.decode()
    assert "Delete for good" in asked
    assert Conversation.objects.filter(pk=conversation.pk).exists()
    done = client.post(f"{path}/delete", {"confirmed": "1"}, follow=True).content.decode()
    assert "“Renamed” is deleted" in done
    assert not Conversation.objects.filter(pk=conversation.pk).exists()


def test_changes_require_post_with_csrf_token(owner: User) -> None:
    conversation = long_conversation(owner, 1)
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    for action in ("rename", "archive"):
        assert client.get(f"/conversations/{conversation.pk}/{action}").status_code == 405
    for action in ("rename", "archive", "delete"):
        response = client.post(f"/conversations/{conversation.pk}/{action}", {"title": "x"})
        assert response.status_code == 403
        assert "Please send that again" in response.content.decode()


def test_dates_are_shown_and_missing_ones_left_out(owner: User, page: Callable[..., str]) -> None:
    said = [
        user_says("q", created_at=datetime(2026, 3, 2, 9, 14, tzinfo=UTC)),
        MessageDraft("assistant", (TextPart("a"),)),
    ]
    conversation = make_conversation(owner, said)
    text = page(f"/conversations/{conversation.pk}")
    assert "2 Mar 2026, 09:14" in text


def test_later_loaded_messages_of_turn_are_marked(owner: User, page: Callable[..., str]) -> None:
    work = [user_says("q"), *(assistant_says(f"step {number}") for number in range(100))]
    conversation = make_conversation(owner, work)
    text = page(f"/conversations/{conversation.pk}?turn=0")
    address = unescape(text.split("data-later")[0].split('hx-get="')[-1].split('"')[0])
    assert address == f"/conversations/{conversation.pk}?later=40&turn=0"
    part = page(address, **HTMX)
    assert part.count("is-target") == 40
    assert "autofocus" not in part


def passage_address(conversation: Conversation, position: int, start: int, end: int, part: int = 0) -> str:
    message = conversation.messages.get(position=position)
    place = f"m={message.pk}&part={part}&from={start}&to={end}"
    return f"/conversations/{conversation.pk}?turn={message.turn_number}&q=what&{place}"


def test_passage_in_address_is_marked(owner: User, page: Callable[..., str]) -> None:
    conversation = make_conversation(owner, exchange(("what?", "One. **Two** words. Three."), ("what?", "One. Two.")))
    text = page(passage_address(conversation, 1, 5, 19))
    assert '<strong><mark class="passage" id="passage" tabindex="-1">Two</mark></strong>' in text
    assert '<mark class="passage"> words.</mark> Three.</p>' in text
    assert text.count('id="passage"') == 1
    assert "/search/hits-in?conversation=" in text
    assert 'class="passage"' in page(passage_address(conversation, 1, 5, 19), **IN_MAIN)
    assert 'class="passage"' not in page(f"/conversations/{conversation.pk}?turn=0&q=what")
    assert "hits-in" not in page(f"/conversations/{conversation.pk}?turn=0")


def test_parts_that_hold_passage_are_open(owner: User, page: Callable[..., str]) -> None:
    work = MessageDraft("assistant", (ThinkingPart("let me think"), ToolCallPart("t1", "Bash", {"command": "ls -l"})))
    output = MessageDraft("user", (ToolResultPart("t1", "total 0\n" * 900 + "found\n" + "total 0\n" * 900),))
    conversation = make_conversation(owner, [user_says("go"), work, output, assistant_says("so")])
    thinking = page(passage_address(conversation, 1, 0, 6))
    assert thinking.count(" open>") == 1
    assert 'tabindex="-1">let me</mark> think' in thinking
    call = page(passage_address(conversation, 1, 0, 30, part=1))
    assert 'tabindex="-1">ls -l</mark>' in call
    address = passage_address(conversation, 2, 7200, 7205)
    result = page(address)
    assert 'tabindex="-1">found</mark>' in result
    rest = unescape(flat(result).split('class="rest"><a href="')[1].split('"')[0])
    assert rest.endswith("/messages/2/parts/0?from=7200&to=7205")
    whole = page(rest, **HTMX)
    assert 'tabindex="-1">found</mark>' in whole
    assert whole.count("total 0") == 1_800


@pytest.mark.parametrize("place", ["m=1&from=0&to=4", "from=0&to=4", "m=9223372036854775807&from=0&to=4"])
def test_passage_of_another_message_is_not_shown(owner: User, page: Callable[..., str], place: str) -> None:
    make_conversation(make_user(), exchange(("secret?", "secret!")))
    conversation = long_conversation(owner, 3)
    text = page(f"/conversations/{conversation.pk}?turn=1&{place}")
    assert 'data-target-turn="1"' in text
    assert "passage" not in text
    assert "secret" not in text


def test_passage_far_below_its_turn_s_beginning_is_on_page(owner: User, page: Callable[..., str]) -> None:
    work = [user_says("q"), *(assistant_says(f"step {number}") for number in range(300))]
    conversation = make_conversation(owner, [*exchange(("first", "one")), *work])
    near = page(passage_address(conversation, 30, 0, 4))
    assert 'id="turn-1"' in near
    far = page(passage_address(conversation, 250, 0, 6))
    assert 'tabindex="-1">step 2</mark>47' in far
    assert f"?earlier={250 - MESSAGES_BEFORE_TURN}&amp;turn=1" in far
    assert far.count("data-position=") == far.count("is-target") == WINDOW_MESSAGES


def test_pages_count_turns_from_one_and_other_surfaces_from_zero(owner: User, page: Callable[..., str]) -> None:
    asked = "what of the quokka?"
    made = make_conversation(owner, exchange(("tea?", "yes"), (asked, "A quokka smiles."), ("so?", "so")))
    index_conversation(conversation_id=made.pk)
    command = StringIO()
    call_command("conversation_search", "--user", owner.username, "--query", asked, "--limit", "1", stdout=command)
    tools = {"ConversationSearch": {"query": asked}, "conversation_recall": {"query": asked}}
    text = flat(page(made.get_absolute_url()))
    shown = re.findall(r'class="turn-number" href="[^"]*turn=(\d+)#[^>]*>[^<\d]*(\d+)', text)
    assert shown == [("0", "1"), ("1", "2"), ("2", "3")]
    assert re.findall(r"turn (\d)", page(f"/search?q={asked}"))[0] == "2"
    assert Api(owner).get("/conversations/search", query=asked).json()["results"][0]["turn_number"] == 1
    assert f"{made.get_absolute_url()}?turn=1\n" in command.getvalue()
    assert [run_tool(name, said, Caller.of(owner))["results"][0]["turn_number"] for name, said in tools.items()] == [
        1,
        1,
    ]
    read = run_tool("read_conversation", {"conversation_id": made.pk, "from_turn": 1}, Caller.of(owner))
    assert (read["messages"][0]["turn_number"], read["messages"][0]["text"]) == (1, asked)


def test_same_error_is_found_in_other_sessions(owner: User, page: Callable[..., str]) -> None:
    messages = [
        "cannot open /srv/a/orders.db after 3 retries",
        "cannot open /home/ada/tmp/orders.db after 12 retries",
        "cannot close /srv/a/orders.db after 3 retries",
    ]
    numbers = []
    for place, message in enumerate(messages):
        level = "Fatal" if place == 0 else "ERROR"
        event = EventDraft(line_number=1, type="tool:error", level=level, turn_number=0, payload={"error": message})
        pairs = exchange((f"what {place}?", "that"))
        draft = ConversationDraft(pairs, source="amplifier", source_id=f"s{place}", events=[event])
        numbers.append(ingest.sync_conversation(caller=Caller.of(owner), draft=draft).conversation_id)
    address = f"/conversations/{numbers[0]}/events"
    link = re.findall(r'href="([?]similar=\d+)"', page(address))[0]
    similar = page(f"{address}{link}")
    assert f'href="/conversations/{numbers[1]}?turn=0#turn-0"' in similar
    assert "12 retries" in similar
    assert "cannot close" not in similar
    event_id = int(link.rpartition("=")[2])
    (found,) = run_tool("search_events", {"similar_to": event_id}, Caller.of(owner))["results"]
    assert (found["conversation_id"], found["turn_number"]) == (numbers[1], 0)
    assert found["payload"] == {"error": messages[1]}
    with pytest.raises(NotFound):
        run_tool("search_events", {"similar_to": event_id}, Caller.of(make_user()))


def test_event_log_is_searched_and_goes_on_by_link(owner: User, page: Callable[..., str]) -> None:
    day = datetime(2026, 3, 1, 9, tzinfo=UTC)
    events = [
        EventDraft(
            line_number=number, type="tool:post", tool="bash", level="ERROR" if number == 7 else "INFO", turn_number=0,
            created_at=day, payload={"output": f"badger number{number} <b>"},
        )
        for number in range(130)
    ]  # fmt: skip
    draft = ConversationDraft(exchange(("what?", "that")), source="amplifier", source_id="s", events=events)
    number = ingest.sync_conversation(caller=Caller.of(owner), draft=draft).conversation_id
    address = f"/conversations/{number}/events"
    assert f'href="{address}"' in page(f"/conversations/{number}")
    text = page(address)
    assert "number99" in text
    assert "number100" not in text
    assert "<b>" not in text
    assert f'href="/conversations/{number}?turn=0#turn-0"' in text
    later = unescape(text.split('<a class="button quiet" href="')[1].split('"')[0])
    assert "number100" in page(f"{address}{later}")
    found = page(f"{address}?q=badger+number7&level=error&turn=0&type=tool:post&tool=bash&after=2026-03-01T09:00")
    assert found.count("<li class=") == 1
    assert "No event of this conversation is like that" in page(f"{address}?q=otter")
    assert "{&quot;output&quot;: &quot;badger number7 " in found
    for wrong in ("after=yesterday", "turn=x", "q=%3F"):
        assert 'role="alert"' in page(f"{address}?{wrong}", status=422)
    page(f"/conversations/{make_conversation(make_user()).pk}/events", status=404)
    assert "came without an event log" in page(f"/conversations/{make_conversation(owner).pk}/events")
