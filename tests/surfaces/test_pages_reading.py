"""Reading on the conversation page: runs of steps, the display switch, the outline, texts and pictures."""

import base64
import json
import re
from collections.abc import Callable
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.utils.html import strip_tags

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import AttachmentPart, TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from convmemory.conversations.statistics import count_changed
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.api import signed_in
from tests.support.markup import flat

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
Page = Callable[..., str]


def working_conversation(owner: User) -> Conversation:
    edit = ToolCallPart("c2", "Edit", {"file_path": "a.py", "old_string": "one", "new_string": "two"})
    return make_conversation(
        owner,
        [
            user_says("mend it"),
            MessageDraft("assistant", (TextPart("I look."), ToolCallPart("c1", "Bash", {"command": "pytest"}))),
            MessageDraft("tool", (ToolResultPart("c1", "\x1b[31m1 failed\x1b[0m", is_error=True),)),
            MessageDraft("assistant", (edit,)),
            MessageDraft("tool", (ToolResultPart("c2", ""),)),
            assistant_says("Mended."),
        ],
    )


def test_steps_are_folded_with_results_diffs_and_colours(owner: User, page: Page) -> None:
    text = page(f"/conversations/{working_conversation(owner).pk}")
    assert '<summary title="1 Bash, 1 Edit">' in text
    assert '<span class="fold-label">2 steps, 1 file</span>' in text
    assert "1 failed</span>" in text
    assert text.count('<details class="run">') == 1
    assert '<span class="ansi-1">1 failed</span>' in text
    assert '<span class="is-removed"><span class="diff-sign">-</span>one' in flat(text)
    assert "It printed nothing." in text
    assert 'data-position="4"' in text  # the run's last message
    assert 'data-position="5"' in text


def test_to_dos_are_shown_as_checklist(owner: User, page: Page) -> None:
    todos = [{"content": "Oil the <gate>", "status": "completed"}, {"content": "Paint", "status": "pending"}]
    call = MessageDraft("assistant", (ToolCallPart("c", "TodoWrite", {"todos": todos}),))
    text = page(f"/conversations/{make_conversation(owner, [user_says('go'), call, assistant_says('On it.')]).pk}")
    assert '<code class="gist">1 of 2 done</code>' in text
    assert re.search(r'class="is-done">.*done: </span>Oil the &lt;gate&gt;</li>', text)
    assert "&quot;status&quot;" not in text


def test_calls_are_shown_as_cards_and_only_if_tools_are_searched(owner: User, page: Page) -> None:
    call = MessageDraft("assistant", (TextPart("I run it."), ToolCallPart("c", "Bash", {"command": "vermilion --all"})))
    made = make_conversation(owner, [user_says("which vermilion?"), call, assistant_says("It is vermilion.")])
    index_conversation(conversation_id=made.pk)
    assert "Bash" not in page("/search?q=vermilion").split('class="item hit"')[1].split("</a>")[0]
    hit = page("/search?q=vermilion+--all&scope=tool").split('class="item hit"')[1].split("</a>")[0]
    assert "Bash · vermilion --all" in strip_tags(hit)


def outcomes_in(text: str) -> list[str]:
    """Return the last lines of the turns on a page, without markup."""
    lines = re.findall(r'<p class="outcome turn-outcome".*?</p>', text, re.DOTALL)
    return [" ".join(unescape(strip_tags(line)).split()) for line in lines]


def test_turn_ends_with_its_files_and_its_last_commands(owner: User, page: Page) -> None:
    again = exchange(("<b>thanks</b>", "You are welcome."))
    conversation = working_conversation(owner)
    ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=again)
    text = page(conversation.get_absolute_url())
    assert outcomes_in(text) == ["Outcome: a.py pytest failed"]  # a turn without work has no such line
    assert text.index("Mended.") < text.index("turn-outcome") < text.index("thanks")
    assert outcomes_in(page(f"{conversation.get_absolute_url()}?earlier=3", **HTMX)) == []  # the turn goes on behind it
    assert outcomes_in(page(f"/search/preview{conversation.get_absolute_url()}?turn=0")) == [
        "Outcome: a.py pytest failed"
    ]


def test_call_and_result_are_in_same_part_of_long_turn(owner: User, page: Page) -> None:
    work = [user_says("go")]
    for number in range(60):
        work.append(MessageDraft("assistant", (ToolCallPart(f"c{number}", "Bash", {"command": f"step {number}"}),)))
        work.append(MessageDraft("tool", (ToolResultPart(f"c{number}", f"printed {number}"),)))
    made = make_conversation(owner, [*work, assistant_says("Done.")])
    path, result = made.get_absolute_url(), made.messages.get(position=60)
    first = page(path)
    second = page(f"{path}?later={re.findall(r'[?]later=([0-9]+)', first)[0]}", **HTMX)
    around = page(f"{path}?turn=0&m={result.pk}&part=0&from=0&to=7")
    for text in (first, second, around):
        assert text.count('<p class="step-label">Result</p>') == text.count('class="part fold call step') > 15
        assert "part fold result" not in text


def test_questions_are_shown_with_outcomes_alone(owner: User, page: Page) -> None:
    path = f"/conversations/{working_conversation(owner).pk}"
    questions = page(f"{path}?show=questions")
    assert "mend it" in questions
    assert "I look." not in questions
    assert outcomes_in(questions) == ["Outcome: Mended. a.py pytest failed"]
    assert "I look." in page(f"{path}?show=nonsense")
    long = make_conversation(owner, exchange(*[(f"q{number}", "a") for number in range(60)]))
    assert "&amp;show=questions" in page(f"/conversations/{long.pk}?show=questions")


def test_conclusions_are_shown_without_markdown(owner: User, page: Page) -> None:
    concludes = assistant_says("The cause was **the lock**: `refund.py` takes it twice now.")
    made = make_conversation(owner, [user_says("Why the deadlock?"), concludes], title="Deadlock")
    plain = "The cause was the lock: refund.py takes it twice now."
    assert outcomes_in(page(f"{made.get_absolute_url()}?show=questions")) == [f"Outcome: {plain}"]
    while count_changed(archive_id=owner.pk):
        pass
    assert plain in page("/search?after=2026-01-01")


def test_questions_of_long_turns_are_next_to_each_other(owner: User, page: Page) -> None:
    def work(question: str) -> list[MessageDraft]:
        return [user_says(question), *(assistant_says(f"step {number}") for number in range(150))]

    path = f"/conversations/{make_conversation(owner, [*work('first?'), *work('second?')]).pk}"
    for side, shown in (
        ("later=40", "second?"),
        ("earlier=290", "second?"),
        ("earlier=151", "conclusion"),
        ("earlier=120", "first?"),
    ):
        assert shown in page(f"{path}?{side}&show=questions", **HTMX)


def test_hit_of_search_for_time_opens_and_leads_on(owner: User, page: Page) -> None:
    made = make_conversation(owner, exchange(*[(f"question {number}", "a") for number in range(60)]))
    time = "q=question&after=2025-01-01&before=2027-01-01"
    text = page(f"{made.get_absolute_url()}?turn=10&{time}")
    for link in ("earlier", "later"):
        ((address, start),) = re.findall(rf'class="more {link}"\s+href="([^"]+{link}=([0-9]+)[^"]+)"', text)
        assert unescape(address).endswith(time)
        positions = re.findall(r'data-position="([0-9]+)"', page(unescape(address)))
        assert int(positions[-1 if link == "earlier" else 0]) == int(start) - (link == "earlier")


def test_head_counts_turns_from_one(owner: User, page: Page) -> None:
    conversation = make_conversation(owner, exchange(*[(f"q{number}", f"a{number}") for number in range(13)]))
    text = page(f"/conversations/{conversation.pk}?turn=2")
    assert re.search(r'<b data-turn-now="2">3</b>\s+<small>/ 13</small>', text)
    assert 'aria-label="Link to turn 3"' in text
    assert f"/conversations/{conversation.pk}?turn=3#turn-3" in text


def test_short_question_is_heading_and_long_one_is_cut_and_opens(owner: User, page: Page) -> None:
    long = "Why <b>is</b> it slow? " + "word " * 20_000
    made = make_conversation(owner, exchange(("why is it *slow*?", "Locks."), (long, "Locks."), ("🌋🌋", "")))
    text = page(made.get_absolute_url())
    headings = re.findall(r'<div role="heading" aria-level="2".*?</div>', text, re.DOTALL)
    assert [" ".join(strip_tags(each).split()) for each in headings] == ["why is it slow?", "🌋🌋"]
    (cut,) = re.findall(r'<h2 dir="auto">(.*?)</h2>', text)
    assert cut.startswith("Why &lt;b&gt;is&lt;/b&gt; it slow? word")
    assert cut.endswith("…")
    assert len(unescape(cut)) <= 200
    assert f"all of it: {len(long):,} characters" in text
    question = made.messages.get(turn_number=1, role="user")
    opened = page(f"{made.get_absolute_url()}?turn=1&m={question.pk}&part=0&from=4&to=8")
    assert re.search(r'<details class="part question"\s+data-part="0" open>', opened)


def test_outline_lists_questions_and_marks_those_that_were_found(owner: User, page: Page) -> None:
    pairs = [("how is <rye> bread made?", "With rye."), ("and the oven?", "Hot."), ("the `lock_timeout`?", "Five.")]
    conversation = make_conversation(owner, exchange(*pairs))
    index_conversation(conversation_id=conversation.pk)
    path = f"/conversations/{conversation.pk}/outline"
    text = page(path)
    assert "how is &lt;rye&gt; bread made?" in text
    assert "the lock_timeout?" in text
    assert f'href="/conversations/{conversation.pk}?turn=1#turn-1"' in text
    assert "is-hit" not in text
    panel = page(f"{path}?q=lock_timeout&turn=1&mode=full_text", **HTMX)
    assert "<html" not in panel
    assert panel.count('class="is-hit"') == 1
    assert 'aria-current="true"' in panel


def test_words_are_found_in_conversation_alone_before_it_is_indexed(owner: User, page: Page) -> None:
    call = MessageDraft("assistant", (ToolCallPart("c", "Bash", {"command": "grep -r 50%_vermilion ."}),))
    result = MessageDraft("tool", (ToolResultPart("c", "./palette.py: Ochre, then UMBER"),))
    conversation = make_conversation(
        owner, [*exchange(("the oven?", "Hot as cinnabar."), ("more?", "Let me look.")), call, result]
    )
    elsewhere = make_conversation(owner, exchange(("cinnabar?", "Red.")))
    path = f"/conversations/{conversation.pk}/outline"
    found = page(f"{path}?find=cinnabar")
    assert "1 turn with “cinnabar”" in found
    assert f"/conversations/{elsewhere.pk}" not in found
    assert "1 turn with" in page(f"{path}?find=umber+ochre")
    assert "1 turn with" in page(f"{path}?find=50%25_verm")
    assert "does not occur here" in page(f"{path}?find=50_verm")
    assert "does not occur here" in page(f"{path}?find=tool_call")
    (address,) = re.findall(r'href="(/conversations/[^"]+m=[^"]+)"', page(f"{path}?find=umber"))
    opened = page(address.replace("&amp;", "&"))
    assert re.search(r'<details class="part fold call step"\s+data-part="0" open>', opened)
    assert "does not occur here" in page(f"{path}?find=obsidian")
    assert "at least 2 characters" in page(f"{path}?find=x")
    page(f"/conversations/{make_conversation(make_user()).pk}/outline", status=404)


def test_outline_of_long_conversation_goes_on_by_link(owner: User, page: Page) -> None:
    conversation = make_conversation(owner, exchange(*[(f"question {number}", "a") for number in range(310)]))
    path = f"/conversations/{conversation.pk}/outline"
    first = page(path)
    assert "question 299" in first
    assert "question 300" not in first
    assert f'href="{path}?from_turn=300"' in first
    assert "question 309" in page(f"{path}?from_turn=300")


def with_picture(owner: User, data: bytes = PNG, media_type: str = "image/png") -> Conversation:
    block = {"type": "image", "source": {"type": "base64", "media_type": media_type,
                                         "data": base64.b64encode(data).decode()}}  # fmt: skip
    raw = json.dumps({"message": {"content": [block]}}).encode()
    parts = (TextPart("**look**"), AttachmentPart("photo", media_type, len(data)))
    return make_conversation(owner, [MessageDraft("user", parts, raw=raw), assistant_says("A dot.")])


def test_picture_is_shown_from_raw_source(owner: User, page: Page) -> None:
    conversation = with_picture(owner)
    address = f"/conversations/{conversation.pk}/messages/0/parts/1/picture"
    assert f'<img src="{address}" alt="photo"' in flat(page(f"/conversations/{conversation.pk}"))
    client = signed_in(owner)
    answer = client.get(address)
    assert answer.content == PNG
    assert answer.headers["Content-Type"] == "image/png"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    stranger = signed_in(make_user())
    assert stranger.get(address).status_code == 404


def test_only_real_images_are_served_as_pictures(owner: User, page: Page) -> None:
    for data, media_type in ((b"<script>alert(1)</script>", "image/png"), (b"<svg/>", "image/svg+xml")):
        conversation = with_picture(owner, data, media_type)
        page(f"/conversations/{conversation.pk}/messages/0/parts/1/picture", status=404)
    page(f"/conversations/{conversation.pk}/messages/0/parts/0/picture", status=404)
    page(f"/conversations/{conversation.pk}/messages/9/parts/0/picture", status=404)


def test_message_is_given_out_as_it_was_written(owner: User, page: Page) -> None:
    conversation = make_conversation(owner, exchange(("q", "**bold** <b>")))
    assert page(f"/conversations/{conversation.pk}/messages/1/text") == "**bold** <b>"
    page(f"/conversations/{conversation.pk}/messages/7/text", status=404)
    foreign = make_conversation(make_user(), exchange(("q", "secret")))
    page(f"/conversations/{foreign.pk}/messages/1/text", status=404)
