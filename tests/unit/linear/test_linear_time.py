"""Whatever reads foreign text takes time that grows with the text and no faster: every regular expression, and every
function that is handed a text from outside.
"""

from collections import deque

import pytest

from convmemory.core.errors import ConvMemoryError
from tests.support.growth import FEW_UNITS, MARKDOWN_UNITS, UNITS, assert_linear
from tests.unit.linear.patterns import compiled_patterns, inline_patterns, modules_of_text
from tests.unit.linear.text_functions import TEXT_FUNCTIONS, TextFunction

pytestmark = pytest.mark.slow

PATTERNS = compiled_patterns()
READERS = {"latex2mathml", "lxml", "markdown_it", "nh3", "pygments", "pyphen", "sentencex", "tiktoken", "unicodedata"}

SLOW = frozenset({"convmemory.conversations.pages.markdown_html"})
SLOWEST = frozenset(
    {
        "convmemory.conversations.importers.message_lists",
        "convmemory.conversations.pages.part_views passage",
        "convmemory.documents.markdown_sections",
    }
)
"""They read Markdown, or many pieces: a selection of the texts is enough to be waited for."""

# Patterns that are made on the spot, and the function in the register that runs them.
MADE_ON_THE_SPOT = {
    "convmemory/core/text.py: re.compile('<[^a-z0-9<]{0,40}+' + '[^a-z0-9<]{0,8}+'.join(letters), re.IGNORECASE)": (
        "convmemory.core.text"
    ),
    "search/results/matching.py: re.compile(f'{begins}(?=({re.escape(word)}[^\\\\W_]*+))')": "search.results.matching",
    "search/results/matching.py: re.finditer(re.escape(sign), plain.text)": "search.results.matching",
    "search/results/overturned.py: re.compile(f'{before}(?:{either}){after}')": "search.results.overturned",
    "convmemory/chat/checked_answers.py: re.search(f'(?<![0-9a-z]){re.escape(piece)}(?![0-9a-z])', text)": (
        "convmemory.chat.checked_answers"
    ),
    "search/pages/snippets.py: re.compile('|'.join(patterns))": "search.pages.snippets",
    "convmemory/push/ignoring.py: re.compile(expression, _FLAGS)": "convmemory.push.ignoring",
    "convmemory/core/usages.py: re.fullmatch(_TOKEN.sub(as_pattern, usage), call)": "convmemory.core.usages",
    "convmemory/core/key_shapes.py: re.compile(pattern)": "convmemory.core.key_shapes",
    "convmemory/conversations/importing/reasons.py: re.compile(f'\\\\A{values}\\\\Z', re.DOTALL)": (
        "convmemory.conversations.importing.reasons"
    ),
}


def called(function: TextFunction) -> TextFunction:
    """The function with its own errors passed over: a refusal is an answer."""

    def call(text: str) -> object:
        try:
            return function(text)
        except ConvMemoryError as error:
            return error

    return call


@pytest.mark.parametrize("place", sorted(PATTERNS))
def test_every_regular_expression_is_linear(place: str) -> None:
    pattern = PATTERNS[place]

    def run(text: str) -> None:
        subject = text if isinstance(pattern.pattern, str) else text.encode("utf-8", "replace")
        deque(pattern.finditer(subject), maxlen=0)  # type: ignore[arg-type]
        pattern.fullmatch(subject)  # type: ignore[arg-type]

    assert_linear(run)


@pytest.mark.parametrize("name", sorted(TEXT_FUNCTIONS))
def test_every_function_of_foreign_text_is_linear(name: str) -> None:
    units = FEW_UNITS if name in SLOWEST else MARKDOWN_UNITS if name in SLOW else UNITS
    assert_linear(called(TEXT_FUNCTIONS[name]), units=units)


def test_inline_regular_expressions_are_registered() -> None:
    assert inline_patterns() == set(MADE_ON_THE_SPOT)
    assert set(MADE_ON_THE_SPOT.values()) <= set(TEXT_FUNCTIONS)


def test_every_module_that_reads_text_is_covered() -> None:
    covered = {name.partition(" ")[0] for name in TEXT_FUNCTIONS} | {place.rsplit(".", 2)[0] for place in PATTERNS}
    assert modules_of_text({"re"}) <= covered
    assert modules_of_text(READERS) <= {name.partition(" ")[0] for name in TEXT_FUNCTIONS}


def test_assert_linear_fails_for_quadratic_expression() -> None:
    import re

    pattern = re.compile(r"\s+x")
    with pytest.raises(AssertionError, match="after"):
        assert_linear(lambda text: pattern.search(text))
