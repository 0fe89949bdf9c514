"""A passage of the source highlighted in what the page makes of it: exactly, everywhere, and without a way in."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmemory.conversations.messages.parts import (
    AttachmentPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from convmemory.conversations.pages.highlighting import MarkedSpan, highlight_text
from convmemory.conversations.pages.markdown_html import render_markdown
from convmemory.conversations.pages.part_views import TEXT_CHARS, TOOL_CHARS, PartView, view_part
from tests.unit.conversations.test_rendering import ATTACKS, Harmless

MARK = re.compile(r'<mark class="passage"(?: id="passage" tabindex="-1")?>(.*?)</mark>', re.DOTALL)
PYTHON = "Before:\n\n```python\ndef f(name):\n    return [name, 'a & b']\n```\n\nafter"


class HarmlessWithMarks(Harmless):
    TAGS = Harmless.TAGS | {"mark"}
    ATTRIBUTES = Harmless.ATTRIBUTES | {"id", "tabindex"}


def view(text: str, passage: str) -> PartView:
    """The part `text` with the first `passage` in it highlighted."""
    start = text.index(passage)
    return view_part(TextPart(text), 0, tools={}, passage=MarkedSpan(start, start + len(passage)))


def marked(html: str | None) -> str:
    """Return the marked text without markup."""
    return unescape(re.sub("<[^>]*>", "", "".join(MARK.findall(html or ""))))


def without_marks(html: str | None) -> str:
    return MARK.sub(r"\1", html or "")


@pytest.mark.parametrize(
    ("text", "passage", "shown"),
    [
        ("One. Two words. Three.", "Two words.", "Two words."),
        ("First words of all.", "First words", "First words"),
        ("The very end.", "very end.", "very end."),
        ("All of it.", "All of it.", "All of it."),
        ("one **two** three", "two** three", "two three"),
        ("one **two three** four", "one **two", "one two"),
        ("so **bold** it is", "**bold**", "bold"),
        ("a _quiet_ word", "_quiet_ word", "quiet word"),
        ("# Head\n\nText below.", "# Head\n\nText", "HeadText"),
        ("- one\n- two\n- three", "- one\n- two", "onetwo"),
        ("1. one\n2. two", "1. one\n2. two", "onetwo"),
        ("> quoted\n> words\n\nplain", "> quoted\n> words", "quoted\nwords"),
        ("| a | b |\n|---|---|\n| c | d |", "| c | d |", "cd"),
        ("see `the code` here", "`the code` here", "the code here"),
        ("AT&amp;T and &lt;b&gt; here", "AT&amp;T and &lt;b&gt;", "AT&T and <b>"),
        ("AT&T <script> here", "&T <script>", "&T <script>"),
        ("go to https://a.example/x now", "https://a.example/x", "https://a.example/x"),
        ("go [there](https://a.example/x) now", "[there](https://a.example/x) now", "there now"),
        ("in [main.py](src/main.py) now", "in [main.py](src/main.py)", "in main.py"),
        (PYTHON, "return [name, 'a & b']", "return [name, 'a & b']"),
        (PYTHON, "```python\ndef f(name):", "def f(name):"),
        (PYTHON, PYTHON[9:-7], "def f(name):\n    return [name, 'a & b']"),
        ("```json\n{\n}\n```\n\nx", "```json\n{\n}\n```", "{\n}"),
        (PYTHON, "Before:\n\n```python\ndef f", "Before:def f"),
        ("    indented code\n    more", "indented code", "indented code"),
        ("\n\nafter empty lines", "after empty", "after empty"),
        ("日本語の文。次の文。", "次の文。", "次の文。"),
        ("🦜 parrots 🦜🦜 fly", "🦜🦜", "🦜🦜"),
    ],
)
def test_passage_is_marked_and_nothing_else_changes(text: str, passage: str, shown: str) -> None:
    part = view(text, passage)
    assert part.is_marked
    assert marked(part.html) == shown
    assert without_marks(part.html) == render_markdown(text.strip("\n"))
    assert str(part.html).count('id="passage"') == 1


def test_code_in_passage_keeps_its_colours() -> None:
    html = view(PYTHON, "def f(name):\n    return [name, 'a & b']").html
    assert html is not None
    assert re.search(r'<span class="k"><mark [^>]*>def</mark></span>', html)
    assert marked(html) == "def f(name):\n    return [name, 'a & b']"


@pytest.mark.parametrize("span", [MarkedSpan(4, 10_000), MarkedSpan(0, 3)])
def test_passage_that_ends_beyond_text_ends_with_it(span: MarkedSpan) -> None:
    part = view_part(TextPart("one two"), 0, tools={}, passage=span)
    assert marked(part.html) == "one two"[span.start : span.end]


@pytest.mark.parametrize("span", [MarkedSpan(7, 9), MarkedSpan(900, 1_000), MarkedSpan(3, 4)])
def test_empty_or_out_of_range_passage_marks_whole_part(span: MarkedSpan) -> None:
    part = view_part(TextPart("one two"), 0, tools={}, passage=span)
    assert (part.is_marked, part.passage, part.html) == (False, span, render_markdown("one two"))


def test_passage_without_visible_text_marks_whole_part() -> None:
    part = view("text\n\n[x]: https://a.example/x\n", "[x]: https://a.example/x")
    assert not part.is_marked
    assert part.passage
    assert part.html == render_markdown("text\n\n[x]: https://a.example/x")


@pytest.mark.parametrize("character", ["\ufdd0", "\ufdd1", "&#xFDD0;", "&#64976;"])
def test_marker_characters_in_transcript_are_removed(character: str) -> None:
    text = f"a {character}b{character} `{character}` c. The passage. {character}"
    part = view(text, "The passage.")
    assert marked(part.html) == "The passage."
    for html in (str(part.html), str(render_markdown(text))):
        assert "\ufdd0" not in html
        assert "\ufdd1" not in html


@given(
    st.lists(st.sampled_from([*ATTACKS, "<", "&", '"', "`", "```", "**", "_", "\n", "- ", "a b", "\ufdd0", "\ufdd1"])),
    st.integers(0, 300),
    st.integers(1, 300),
)
def test_any_highlight_is_harmless_and_keeps_text(pieces: list[str], start: int, length: int) -> None:
    text = "".join(pieces)
    html = view_part(TextPart(text), 0, tools={}, passage=MarkedSpan(start, start + length)).html
    parser = HarmlessWithMarks()
    parser.feed(str(html))
    parser.close()
    assert without_marks(html) == render_markdown(text.strip("\n"))


@given(st.text(), st.integers(0, 50), st.integers(0, 50))
def test_plain_text_is_escaped_on_both_sides_of_its_mark(text: str, start: int, end: int) -> None:
    html = highlight_text(text, MarkedSpan(start, end))
    if html is not None:
        assert unescape(without_marks(html)) == text
        assert "<" not in MARK.sub("", html)


THOUGHT = "I think <b> so."


@pytest.mark.parametrize(
    "part", [ThinkingPart(THOUGHT), ToolResultPart("t1", THOUGHT), AttachmentPart("a.txt", text=THOUGHT)]
)
def test_every_kind_of_text_is_marked(part: Part) -> None:
    shown = view_part(part, 0, tools={}, passage=MarkedSpan(2, 11))
    assert shown.is_marked
    assert marked(shown.html or shown.text) == "think <b>"
    assert "<b>" not in (shown.html or shown.text)


def test_passage_of_call_is_marked_in_its_parameters() -> None:
    call = ToolCallPart("t1", "Edit", {"path": "src/<main>.py", "lines": [1, 2], "text": "a new line"})
    full = "Edit path:src/<main>.py lines:[1, 2] text:a new line"
    everything = view_part(call, 0, tools={}, passage=MarkedSpan(0, len(full)))
    assert [marked(field.marked) for field in everything.fields] == ["src/<main>.py", "- 1\n- 2", "a new line"]
    assert sum("id=" in (field.marked or "") for field in everything.fields) == 1
    some = view_part(call, 0, tools={}, passage=MarkedSpan(full.index("new"), len(full)))
    assert [marked(field.marked) for field in some.fields] == ["", "", "new line"]
    name = view_part(call, 0, tools={}, passage=MarkedSpan(0, 4))
    assert not name.is_marked


@pytest.mark.parametrize("kind", [TextPart, ThinkingPart])
def test_passage_below_cut_is_shown(kind: type[TextPart | ThinkingPart]) -> None:
    text = "a line\n" * (TEXT_CHARS // 4) + "the needle" + "\nmore" * 5_000
    start = text.index("the needle")
    part = view_part(kind(text), 0, tools={}, passage=MarkedSpan(start, start + 10))
    assert marked(part.html) == "the needle"
    assert part.left_out


def test_far_down_in_output_head_and_passage_are_shown() -> None:
    text = "a line\n" * 100_000 + "the needle" + "\nmore" * 100_000
    start = text.index("the needle")
    part = view_part(ToolResultPart("t1", text), 0, tools={}, passage=MarkedSpan(start, start + 10))
    assert marked(part.text) == "the needle"
    assert part.text.startswith("a line")
    assert len(part.text) < 2 * TOOL_CHARS
    assert part.left_out > 1_000_000
