"""Reading on the conversation page: runs of steps, the display switch, the outline, texts and pictures."""

import base64
import json
import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import AttachmentPart, TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says

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
    assert '<span class="fold-label">2 steps:</span> <span class="run-gist">1 Bash, 1 Edit</span>' in text
    assert "1 failed</span>" in text
    assert text.count('<details class="run">') == 1
    assert '<span class="ansi-1">1 failed</span>' in text
    assert '<span class="is-removed"><span class="diff-sign">-</span>one' in text
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


def test_display_switch_leaves_out_what_is_not_wanted(owner: User, page: Page) -> None:
    path = f"/conversations/{working_conversation(owner).pk}"
    spoken = page(f"{path}?show=no-tools")
    assert "I look." in spoken
    assert "Mended." in spoken
    assert "pytest" not in spoken
    questions = page(f"{path}?show=questions")
    assert "mend it" in questions
    assert "Mended." not in questions
    assert "pytest" in page(f"{path}?show=nonsense")
    long = make_conversation(owner, exchange(*[(f"q{number}", "a") for number in range(60)]))
    assert "&amp;show=questions" in page(f"/conversations/{long.pk}?show=questions")


def test_turn_has_number_of_its_address(owner: User, page: Page) -> None:
    conversation = make_conversation(owner, exchange(*[(f"q{number}", f"a{number}") for number in range(13)]))
    text = page(f"/conversations/{conversation.pk}?turn=2")
    assert '<b data-turn-now="2">3</b> <small>/ 13</small>' in text
    assert 'aria-label="Link to turn 3"' in text
    assert f"/conversations/{conversation.pk}?turn=3#turn-3" in text


# --- the outline ------------------------------------------------------------------------------------


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
    assert "does not stand here" in page(f"{path}?find=50_verm")
    assert "does not stand here" in page(f"{path}?find=tool_call")
    (address,) = re.findall(r'href="(/conversations/[^"]+m=[^"]+)"', page(f"{path}?find=umber"))
    opened = page(address.replace("&amp;", "&"))
    assert re.search(r'<details class="part fold call step"\s+data-part="0" open>', opened)
    assert "does not stand here" in page(f"{path}?find=obsidian")
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


# --- texts and pictures -------------------------------------------------------------------------------


def with_picture(owner: User, data: bytes = PNG, media_type: str = "image/png") -> Conversation:
    block = {"type": "image", "source": {"type": "base64", "media_type": media_type,
                                         "data": base64.b64encode(data).decode()}}  # fmt: skip
    raw = json.dumps({"message": {"content": [block]}}).encode()
    parts = (TextPart("**look**"), AttachmentPart("photo", media_type, len(data)))
    return make_conversation(owner, [MessageDraft("user", parts, raw=raw), assistant_says("A dot.")])


def test_picture_is_shown_from_raw_source(owner: User, page: Page) -> None:
    conversation = with_picture(owner)
    address = f"/conversations/{conversation.pk}/messages/0/parts/1/picture"
    assert f'<img src="{address}" alt="photo"' in page(f"/conversations/{conversation.pk}")
    client = Client()
    client.force_login(owner)
    answer = client.get(address)
    assert answer.content == PNG
    assert answer.headers["Content-Type"] == "image/png"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    stranger = Client()
    stranger.force_login(make_user())
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
