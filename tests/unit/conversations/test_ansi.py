"""Terminal colours: what becomes a class, what is left out, and that nothing else gets through."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmemory.conversations.pages.ansi import ansi_html, without_sequences


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("\x1b[31mred\x1b[0m plain", '<span class="ansi-1">red</span> plain'),
        ("\x1b[1;32mok\x1b[22m!\x1b[39m.", '<span class="ansi-bold ansi-2">ok</span><span class="ansi-2">!</span>.'),
        ("\x1b[38;5;196mhot\x1b[m", '<span class="ansi-1">hot</span>'),
        ("\x1b[38;2;40;110;205msea\x1b[m", '<span class="ansi-4">sea</span>'),
        ("\x1b[97;41mx\x1b[0m", '<span class="ansi-15 ansi-on-1">x</span>'),
        ("\x1b[48;5;300mx", '<span class="ansi-on-7">x</span>'),
        ("a\x1b[2K\x1b[1Gb\x1b]0;title\x07c\x1b(Bd", "abcd"),
        ("\x1b[31m<b>&\x1b[0m", '<span class="ansi-1">&lt;b&gt;&amp;</span>'),
        ("\x1b[99999mx\x1b[38;7mx", "xx"),
        ("half \x1b[3", "half [3"),
    ],
)  # fmt: skip
def test_sequences_become_classes_or_nothing(text: str, html: str) -> None:
    assert ansi_html(text) == html


@given(st.text(alphabet="\x1b[]0123456789;mKabc<>&\"'\x07\\", max_size=80))
def test_any_ansi_text_becomes_only_spans_with_known_classes(text: str) -> None:
    html = re.sub(r'<span class="[a-z0-9 -]+">|</span>', "", ansi_html(text))
    assert "<" not in html
    assert "\x1b" not in html


def test_sequences_are_taken_out_of_one_line() -> None:
    assert without_sequences("\x1b[32m✓\x1b[0m 3 passed") == "✓ 3 passed"
