"""Transcripts on the page: Markdown is rendered as meant, and active content is neutralised."""

import re
from html.parser import HTMLParser
from typing import Any

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
    part_to_json,
)
from convmemory.conversations.models import Message
from convmemory.conversations.pages.highlighting import MarkedSpan
from convmemory.conversations.pages.markdown_html import highlight_code, render_markdown
from convmemory.conversations.pages.part_views import TEXT_CHARS, TOOL_CHARS, view_part
from convmemory.conversations.pages.rendering import view_messages


class Harmless(HTMLParser):
    """Fails on any element or attribute that could act or load something."""

    TAGS = frozenset(
        {
            *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "s", "a", "span", "div"),
            *("code", "pre", "blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"),
            *("math", "mrow", "mi", "mn", "mo", "mtext", "mfrac", "msub", "msup", "msqrt"),
        }
    )
    ATTRIBUTES = frozenset({"href", "rel", "title", "class", "start", "data-language", "display", "stretchy"})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.TAGS, tag
        for name, value in attrs:
            assert name in self.ATTRIBUTES, (tag, name)
            if name == "href":
                assert (value or "").lower().startswith(("http://", "https://", "mailto:")), value


def assert_harmless(html: str) -> None:
    parser = Harmless()
    parser.feed(html)
    parser.close()


ATTACKS = [
    "$\\text{<script>alert(1)</script>}$",
    "$$\\href{javascript:alert(1)}{x} \\style{color:red}{y} \\class{page}{z}$$",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "<iframe src='https://evil.example'></iframe>",
    "<style>body { display: none }</style>",
    "<form action=https://evil.example><input name=password></form>",
    "<base href=https://evil.example>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1))",
    "[click](java&#115;cript:alert(1))",
    "[click](data:text/html;base64,PHNjcmlwdD4=)",
    "[click](vbscript:msgbox(1))",
    "[click](//evil.example/path)",
    "[click](/logout)",
    "[click][x]\n\n[x]: javascript:alert(1)",
    '[click](https://a.example "x\\" onmouseover=alert(1)")',
    "![x](javascript:alert(1))",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    '![x" onerror="alert(1)](https://a.example/a.png)',
    "<javascript:alert(1)>",
    "<https://a.example/\"onmouseover='alert(1)'>",
    "https://a.example/<script>alert(1)</script>",
    '```"><script>alert(1)</script>\ncode\n```',
    "```html\n<script>alert(1)</script>\n```",
    "`<script>alert(1)</script>`",
    "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
    "<div hx-get='/settings/keys' hx-trigger='load'>x</div>",
    "<p id=main autofocus tabindex=1 onfocus=alert(1)>x</p>",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_active_content_in_markdown_is_neutralised(text: str) -> None:
    html = render_markdown(text)
    assert_harmless(html)
    assert html


@given(st.lists(st.sampled_from([*ATTACKS, "<", ">", '"', "'", "`", "```", "[", "](", ")", "![", "*", "_", "\n", "a"])))
def test_any_combination_of_markdown_pieces_is_harmless(pieces: list[str]) -> None:
    assert_harmless(render_markdown("".join(pieces)))


@given(st.text())
def test_any_text_renders(text: str) -> None:
    assert_harmless(render_markdown(text))


def test_raw_html_is_shown_as_text() -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in render_markdown("<script>alert(1)</script>")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("so $E = mc^2$.", "<msup><mi>c</mi><mn>2</mn></msup>"),
        (r"so \(x_1\) and", "<msub><mi>x</mi><mn>1</mn></msub>"),
        ("so\n$$\na\n+ b\n$$\nand", '<math display="block"><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow></math>'),
        ("- first\n  \\[\n  x\n  \\]\n- second", '<math display="block"><mrow><mi>x</mi></mrow></math>'),
        (r"so $x^2^3$", '<code class="math">x^2^3</code>'),
        ("$5 and $10, US$5, CA$ 6, $HOME/$PATH, 5$", "$5 and $10, US$5, CA$ 6, $HOME/$PATH, 5$"),
        (r"\(see below\) and `$x$`", "(see below) and <code>$x$</code>"),
    ],
)
def test_formulas_are_mathml_and_prices_stay_text(text: str, shown: str) -> None:
    assert shown in render_markdown(text)


def test_passage_around_formula_is_marked() -> None:
    text = "so $x^2$ it is"
    view = view_part(TextPart(text), 0, tools={}, passage=MarkedSpan(4, len(text)))
    assert str(view.html).count("<mark") == 1
    assert "<msup>" in str(view.html)


def test_links_send_no_referrer() -> None:
    for text in ("[x](https://a.example)", "<https://a.example>", "see https://a.example."):
        html = render_markdown(text)
        assert 'href="https://a.example"' in html
        assert 'rel="noopener noreferrer nofollow"' in html


def test_bare_addresses_end_before_punctuation_and_code_keeps_them_as_text() -> None:
    html = render_markdown("(see https://a.example/b(c) and https://a.example/d), `https://a.example/e`")
    assert 'href="https://a.example/b(c)"' in html
    assert 'href="https://a.example/d"' in html
    assert 'href="https://a.example/e"' not in html


def test_relative_links_become_text_with_their_target_as_hint() -> None:
    html = render_markdown("in [main.py](src/main.py)")
    assert '<span class="reference" title="src/main.py">main.py</span>' in html


def test_images_are_not_loaded_but_linked() -> None:
    html = render_markdown("![a chart](https://a.example/chart.png)")
    assert "<img" not in html
    assert 'href="https://a.example/chart.png"' in html
    assert "a chart" in html


def test_markdown_reads_as_meant() -> None:
    html = render_markdown("# Head\n\none **two** ~~three~~\nfour\n\n3. x\n\n| a | b |\n|---|--:|\n| 1 | 2 |")
    for piece in (
        "<h2>Head</h2>",
        "<strong>two</strong>",
        "<s>three</s><br>",
        '<ol start="3">',
        '<td class="right">2</td>',
    ):
        assert piece in html


def test_code_is_highlighted_by_its_language() -> None:
    html = render_markdown("```python\ndef f(): pass\n```")
    assert 'data-language="python"' in html
    assert '<span class="k">def</span>' in html
    assert highlight_code("<b>", "no-such-language") == "&lt;b&gt;"
    assert highlight_code("x = 1\n" * 10_000, "python").count("<span") == 0


def message(role: str, *parts: Part, turn: int | None = 0, real: bool | None = None, **values: Any) -> Message:
    is_real_user = role == "user" and any(isinstance(part, TextPart) for part in parts) if real is None else real
    return Message(
        pk=values.pop("position", 0),
        role=role,
        parts=[part_to_json(part) for part in parts],
        is_real_user=is_real_user,
        turn_number=turn,
        **values,
    )


def test_long_parts_are_cut_at_line_and_shown_whole_on_demand() -> None:
    text = "".join(f"line {number}\n" for number in range(5_000))
    for part, limit in ((TextPart(text), TEXT_CHARS), (ToolResultPart("c", text), TOOL_CHARS)):
        view = view_part(part, 0, tools={})
        assert 0 < view.left_out >= len(text) - limit
        whole = view_part(part, 0, tools={}, whole=True)
        assert whole.left_out == 0
        assert "line 4999" in (whole.html or whole.text)


def test_tool_call_shows_its_parameters_as_they_were_written() -> None:
    call = ToolCallPart("t1", "Edit", {"file_path": "a.py", "new_string": "x\n  y", "flags": [1, 2], "replace": True})
    view = view_part(call, 0, tools={})
    assert (view.label, view.gist) == ("Edit", "a.py")
    assert [(field.name, field.text) for field in view.fields] == [
        ("file_path", "a.py"),
        ("new_string", "x\n  y"),
        ("flags", "- 1\n- 2"),
        ("replace", "true"),
    ]
    assert [field.is_short for field in view.fields] == [True, False, False, True]


@pytest.mark.parametrize(
    ("parameters", "gist"),
    [
        ({"timeout": 5, "command": ["bash", "-lc", "ls"]}, "bash -lc ls"),
        ({"anything": "a\n  b"}, "a b"),
        ({"command": "", "note": "n"}, "n"),
        ({"depth": 3, "mixed": ["a", 1]}, "3 · a · 1"),
        ({}, ""),
    ],
)
def test_gist_of_call_is_its_command_or_its_values(parameters: dict[str, Any], gist: str) -> None:
    assert view_part(ToolCallPart("t1", "Tool", parameters), 0, tools={}).gist == gist


def test_call_with_huge_parameters_is_cut_in_all() -> None:
    call = ToolCallPart("t1", "Post", {"content": "x" * 50_000, "path": "a.py", "other": "y" * 50_000})
    view = view_part(call, 0, tools={})
    assert sum(len(field.text) for field in view.fields) <= TOOL_CHARS
    assert view.left_out >= 100_000 - TOOL_CHARS
    assert view_part(call, 0, tools={}, whole=True).left_out == 0


def test_result_is_named_after_call_that_it_answers() -> None:
    views = view_messages(
        [
            message("user", TextPart("go")),
            message("assistant", ToolCallPart("t1", "Bash", {"command": "ls"})),
            message("user", ToolResultPart("t1", "\n  a.py\nb.py", is_error=True)),
        ]
    )
    result = views[2].parts[0]
    assert (result.label, result.gist, result.is_error) == ("Bash", "a.py", True)


def test_attachment_is_line() -> None:
    view = view_part(AttachmentPart("plan.pdf", "application/pdf", 3 * 1024**2), 0, tools={})
    assert (view.label, view.gist, view.text) == ("plan.pdf", "application/pdf, 3.0 MB", "")


def test_first_message_of_each_turn_opens_it_and_speakers_are_named_once() -> None:
    views = view_messages(
        [
            message("system", TextPart("rules"), turn=None),
            message("user", TextPart("one")),
            message("assistant", ThinkingPart("hm"), ToolCallPart("t1", "Bash")),
            message("user", ToolResultPart("t1", "out")),
            message("assistant", TextPart("done")),
            message("user", TextPart("<reminder>"), real=False),
            message("user", TextPart("two"), turn=1, name="Ada"),
            message("assistant", TextPart("2"), turn=1),
        ],
        target=1,
    )
    assert [view.kind for view in views] == [
        *("system", "user", "assistant", "tool", "assistant", "injected", "user", "assistant"),
    ]
    assert [view.opens_turn for view in views] == [False, True, False, False, False, False, True, False]
    assert [view.headed for view in views] == [True, True, True, False, False, True, True, True]
    assert [view.is_target for view in views] == [False] * 6 + [True] * 2
    assert views[6].speaker == "Ada"


def test_window_in_middle_of_turn_does_not_open_it_again() -> None:
    views = view_messages([message("assistant", TextPart("more"), turn=4)], turn_before=4)
    assert not views[0].opens_turn
    assert views[0].headed


@pytest.mark.slow
def test_page_of_odd_markdown_is_shown_as_it_is_and_says_so() -> None:
    odd = "![" * (TEXT_CHARS // 2)
    message = Message(pk=1, position=0, role="user", is_real_user=True, parts=[part_to_json(TextPart(odd))] * 400)
    (view,) = view_messages([message])
    laid_out = [part for part in view.parts if part.html is not None]
    as_it_is = [part for part in view.parts if part.html is None]
    assert 0 < len(laid_out) < 40
    assert all(part.remark and part.text == odd[: len(part.text)] and part.text for part in as_it_is)
    assert len(laid_out) + len(as_it_is) == 400


def test_page_of_ordinary_markdown_is_laid_out() -> None:
    text = ("Some *words* and `code`, [a link](https://example.org) and more of the same.\n- an item\n\n" * 200)[
        :TEXT_CHARS
    ]
    message = Message(pk=1, position=0, role="user", is_real_user=True, parts=[part_to_json(TextPart(text))] * 10)
    (view,) = view_messages([message])
    assert all(part.html is not None and not part.remark for part in view.parts)


@pytest.mark.slow
def test_text_that_takes_too_much_work_alone_is_shown_as_it_is() -> None:
    html = render_markdown("![" * 100_000 + "<b>")
    assert html.startswith('<pre class="output">![![')
    assert "&lt;b&gt;</pre>" in html
    assert "Shown as it is" in html


def test_bare_address_in_link_is_no_second_link() -> None:
    html = render_markdown("[see http://a.example](http://b.example) and http://c.example")
    assert html.count("<a ") == 2


def test_long_code_keeps_every_character_and_its_colours() -> None:
    code = "".join(f"def number_{n}(value):\n    return value + {n}\n\n" for n in range(300))
    shown = highlight_code(code, "python")
    assert shown.count(">def</span>") == 300
    assert re.sub("<[^>]*>", "", shown) == code


def test_edit_is_shown_as_lines_it_changes() -> None:
    call = ToolCallPart("t1", "Edit", {"file_path": "a.py", "old_string": "one\ntwo", "new_string": "one\n2"})
    view = view_part(call, 0, tools={})
    assert view.diff is not None
    assert [line.sign + line.text for line in view.diff.lines] == [" one", "-two", "+2"]
    assert (view.gist, view.call_id) == ("a.py +1 -1", "t1")
    long = ToolCallPart("t1", "Write", {"path": "a.py", "content": "line\n" * 5_000})
    assert view_part(long, 0, tools={}).left_out > 0
    assert view_part(long, 0, tools={}, whole=True).left_out == 0


def test_terminal_colours_of_output_are_classes() -> None:
    view = view_part(ToolResultPart("t1", "\x1b[32m3 passed\x1b[0m <b>"), 0, tools={})
    assert view.text == '<span class="ansi-2">3 passed</span> &lt;b&gt;'
    assert view.gist == "3 passed <b>"


def test_passage_in_edit_is_marked_in_its_parameters() -> None:
    call = ToolCallPart("t1", "Edit", {"old_string": "one", "new_string": "two"})
    view = view_part(call, 0, tools={}, passage=MarkedSpan(5, 20))
    assert view.diff is None
    assert view.is_marked


def test_places_of_archive_are_links_and_other_relative_addresses_are_not() -> None:
    assert 'href="/conversations/12?turn=3"' in render_markdown("[there](/conversations/12?turn=3)")
    assert 'href="/documents/4?section=0"' in render_markdown("[there](/documents/4?section=0)")
    for address in ("/logout", "/conversations/1/delete", "//evil.example", "/conversations/1?turn=1&x", "../x"):
        assert "href" not in render_markdown(f"[there]({address})"), address
