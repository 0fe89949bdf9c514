"""Markdown documents as HTML, section by section: marks in place, code and tables that sections cut, no way in."""

import re
from collections.abc import Sequence
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmemory.conversations.pages.highlighting import MarkedSpan
from convmemory.documents.converters.plain import end_of_fields, markdown_blocks
from convmemory.documents.markdown_sections import lay_out, opening_after, opening_of
from convmemory.documents.models import Section
from convmemory.documents.structure import cut_sections
from tests.unit.conversations.test_highlighting import HarmlessWithMarks
from tests.unit.conversations.test_rendering import ATTACKS

MARK = re.compile(r'<mark class="passage"(?: id="passage" tabindex="-1")?>(.*?)</mark>', re.DOTALL)
GUIDE = """# Greenhouse

Wrapped text
that goes on in the next line.

| what | when |
|------|-----:|
| tomatoes | May |
| leeks | June |

```python
# not a heading
open_at = 7  # in the morning
```

- one
- **two**
"""


def sections_of(text: str, *, max_chars: int = 10_000) -> list[Section]:
    cut = cut_sections(markdown_blocks(text), max_chars=max_chars)
    return [Section(number=n, path=list(one.path), start=one.start, text=one.text) for n, one in enumerate(cut)]


def html_of(sections: Sequence[Section], passage: MarkedSpan | None = None, target: int | None = None) -> list[str]:
    return [laid_out.html if laid_out else "" for laid_out in lay_out(sections, passage=passage, target=target)]


def read(html: str) -> str:
    return unescape(re.sub("<[^>]*>", "", html))


def marked(html: str) -> str:
    return read("".join(MARK.findall(html)))


def span_of(text: str, passage: str) -> MarkedSpan:
    start = text.index(passage)
    return MarkedSpan(start, start + len(passage))


def test_headings_tables_lists_and_code_are_laid_out() -> None:
    (html,) = html_of(sections_of(GUIDE))
    for part in ("<h2>Greenhouse</h2>", "<td>tomatoes</td>", "<strong>two</strong>", 'data-language="python"'):
        assert part in html
    assert "<br" not in html  # a wrapped line goes on
    assert read(html).count("# not a heading") == 1


@pytest.mark.parametrize("passage", ["Wrapped text\nthat goes on", "leeks", "7  # in the morning", "two"])
def test_passage_is_marked_in_its_place(passage: str) -> None:
    sections = sections_of(GUIDE)
    (html,) = html_of(sections, span_of(GUIDE, passage), target=0)
    assert marked(html) == passage
    assert html.count('id="passage"') == 1
    assert MARK.sub(r"\1", html) == html_of(sections)[0]


def test_passage_over_two_sections_has_one_place_that_links_lead_to() -> None:
    text = "# One\n\n" + "First words. " * 20 + "\n\n# Two\n\n" + "Second words. " * 20
    sections = sections_of(text)
    html = html_of(sections, MarkedSpan(text.index("First words"), text.rindex("Second")), target=1)
    assert [marked(one)[:5] for one in html] == ["First", "TwoSe"]
    assert ["id=" in one for one in html] == [False, True]


def test_code_that_sections_cut_stays_code() -> None:
    lines = "\n".join(f"value_{number} = {number}  # **not bold**" for number in range(60))
    text = f"# Values\n\n```python\n{lines}\n```\n\nAnd **bold** words.\n"
    sections = sections_of(text, max_chars=700)
    html = html_of(sections)
    assert len(sections) > 2
    assert all('data-language="python"' in one for one in html[:-1])
    assert "<strong>bold</strong>" in html[-1]
    assert not any("<strong>not" in one for one in html)
    for number, section in enumerate(sections):
        assert opening_of(before.text for before in sections[:number]) in ("", "```python\n"), section.text
    passage = span_of(text, "value_40 = 40  # **not")
    target = next(one.number for one in sections if one.start <= passage.start < one.end)
    assert marked(html_of(sections, passage, target)[target]) == "value_40 = 40  # **not"


def test_table_that_sections_cut_has_its_head_in_each() -> None:
    rows = "".join(f"| bed {number} | leeks |\n" for number in range(80))
    text = f"# Beds\n\n| bed | what |\n|---|---|\n{rows}\nAfter | all.\n"
    html = html_of(sections_of(text, max_chars=500))
    assert all("<th>what</th>" in one for one in html if "<td>" in one)
    assert sum(one.count("<tr>") - one.count("<thead>") for one in html) == 80
    assert "<td>After" not in "".join(html)


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        ("plain\n", ""),
        ("```py\nx = 1\n", "```py\n"),
        ("```py\nx = 1\n```\n", ""),
        ("````\n```\nx\n", "````\n"),
        ("~~~\n```\nx\n", "~~~\n"),
        ("- list\n  ```sh\n  ls\n", "```sh\n"),
        ("a | b\n--|--\n1 | 2\n", "a | b\n--|--\n"),
        ("a | b\n--|--\n1 | 2\n\n", ""),
        ("a\n---\n", ""),
        ("```py", ""),
        ("| " + "wide " * 500 + "| b |\n|---|---|\n", ""),
    ],
)
def test_opening_after_returns_unclosed_code_or_table(text: str, opening: str) -> None:
    assert opening_after(text) == opening


def test_head_of_table_is_not_repeated_where_table_has_ended() -> None:
    row = Section(number=1, path=[], start=100, text="\nText after the table.\n")
    (laid_out,) = lay_out([row], opening="a | b\n--|--\n")
    assert laid_out
    assert "<table" not in laid_out.html


def test_fields_at_beginning_are_code_and_no_heading() -> None:
    text = "---\ntitle: Beds\ndate: 2026-05-01\n---\n\n# Beds\n\n" + "Leeks stand in the sun. " * 20
    sections = sections_of(text)
    assert [section.path for section in sections] == [["Beds"]]
    (html,) = html_of(sections, span_of(text, "date: 2026"), target=0)
    assert "<h2>Beds</h2>" in html
    assert "<hr" not in html
    assert marked(html) == "date: 2026"
    assert end_of_fields("---\n\nText between rules.\n\n---\n") == 0
    assert end_of_fields("---\ntitle: " + "long " * 2_000 + "\n---\n") == 0


@pytest.mark.slow
def test_section_over_work_limit_is_not_laid_out() -> None:
    hostile = Section(number=0, path=[], start=0, text="[" * 1_000 + "**a_" * 40_000)
    layouts = list(lay_out([hostile, Section(number=1, path=["b"], start=161_000, text="**bold**")]))
    assert layouts[0] is None
    assert layouts[1] is None or "<strong>" in layouts[1].html


@pytest.mark.parametrize("text", ATTACKS)
def test_documents_cannot_act(text: str) -> None:
    for opening in ("", "| a |\n|---|\n", "```\n", '~~~"><script>\n'):
        section = Section(number=0, path=[], start=0, text=f"---\ntitle: {text}")
        for one in (section, Section(number=1, path=[], start=0, text=text)):
            (laid_out,) = lay_out([one], opening=opening, passage=MarkedSpan(2, 30))
            assert laid_out
            parser = HarmlessWithMarks()
            parser.feed(laid_out.html)
            parser.close()


@given(st.text(st.sampled_from("a|-`~# \n<&"), max_size=120), st.integers(0, 120), st.integers(0, 60))
def test_passage_marks_do_not_change_html(text: str, start: int, length: int) -> None:
    section = Section(number=0, path=[], start=0, text=text)
    (plain,) = lay_out([section])
    (marked_section,) = lay_out([section], passage=MarkedSpan(start, start + length))
    assert plain
    assert marked_section
    assert MARK.sub(r"\1", marked_section.html) == plain.html
