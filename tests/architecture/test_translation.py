"""Test that texts of pages are marked for translation and that catalogues are correct.

Complete catalogues are needed for a release only: the tests marked `release` list what is missing.
"""

import ast
import re
from gettext import GNUTranslations
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.conf import settings
from django.template.base import Lexer, TokenType

from convmemory.core.web.languages import SCRIPT_WORDS
from tests.support.catalogues import Entry, Message, marked_in_code, marked_in_template, places_of, read_catalogue

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("convmemory", "search", "memory", "summaries")
ENGLISH_ALWAYS = {  # the administration, the API documentation, and the page that shows components
    *(ROOT / "templates/admin").glob("*.html"),
    ROOT / "templates/accounts/change_password.html",
    ROOT / "templates/ninja/swagger.html",
    ROOT / "templates/shell/components.html",
}
TEMPLATES = sorted(set((ROOT / "templates").rglob("*.html")) - ENGLISH_ALWAYS)
LANGUAGES = [code for code, _ in settings.LANGUAGES if code != "en"]
SPOKEN_ATTRIBUTES = frozenset({"alt", "aria-label", "placeholder", "title"})
NOT_WORDS = frozenset({"code", "kbd", "pre", "script", "style"})
VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
ANYWHERE = re.compile(r"\bconvmemory\b|Ctrl|\.(?:zip|jsonl|tar\.gz)\b")
WORD = re.compile(r"[^\W\d_]{2,}")
GIVEN = re.compile(r"""=["'](?=[A-Z])([^"']*)["']""")  # a text that a template hands to another
PLACE = "\ufffc"  # where the template puts something in


class Spoken(HTMLParser):
    """Collects what a person would read or hear of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        is_code = ("translate", "no") in attrs
        self.found += [value for name, value in attrs if name in SPOKEN_ATTRIBUTES and value and not is_code]
        if tag not in VOID:
            self.open.append("code" if is_code else tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not NOT_WORDS & set(self.open):
            self.found.append(data)


def unmarked_texts(source: str) -> list[str]:
    """Return the texts of a template outside of every `translate` and `blocktranslate`."""
    kept: list[str] = []
    given: list[str] = []
    ends = ""
    for token in Lexer(source).tokenize():
        word = token.contents.split()[0] if token.token_type == TokenType.BLOCK else ""
        if ends:
            ends = "" if word == ends else ends
        elif word in ("blocktranslate", "comment"):
            ends = f"end{word}"
            kept.append(PLACE)
        else:
            kept.append(token.contents if token.token_type == TokenType.TEXT else PLACE)
            given += GIVEN.findall(token.contents) if word == "include" else []
    page = Spoken()
    page.feed("".join(kept))
    return [
        " ".join(text.replace(PLACE, " ").split())
        for text in (*page.found, *given)
        if WORD.search(ANYWHERE.sub("", text))
    ]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_every_text_of_template_is_marked(path: Path) -> None:
    assert unmarked_texts(path.read_text(encoding="utf-8")) == []


def test_unmarked_text_is_found() -> None:
    page = '<p title="{{ b }}">{% translate "C" %} day{% blocktranslate %}Dear{% endblocktranslate %}</p><pre>xy</pre>'
    assert unmarked_texts(page) == ["day"]
    assert unmarked_texts('{% include "a.html" with legend="Agent" b=_("Ha") %}') == ["Agent"]
    assert unmarked_texts('<a aria-label="Go on">{{ x }}</a>') == ["Go on"]


def marked_messages() -> set[Message]:
    """Return the messages that templates, code and scripts mark."""
    found = {message for path in TEMPLATES for message in marked_in_template(path.read_text(encoding="utf-8"))}
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "django.utils.translation" in source:
            found |= set(marked_in_code(source))
    return {message for message in found if message.text}  # the empty one loads a catalogue


TEXTS_OF_CODE = frozenset({"label", "help_text", "heading", "purpose", "back_label"})
PAGE_CODE = [
    path
    for name in ("forms.py", "*views.py", "pages/*.py")
    for path in (ROOT / "convmemory").rglob(name)
    if "observability" not in path.parts  # the dashboard of the administration
]


def unmarked_in_code(source: str) -> list[str]:
    """Return the texts of forms, headings and notices that no gettext function marks."""
    texts = []
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        values = [keyword.value for keyword in call.keywords if keyword.arg in TEXTS_OF_CODE]
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "messages":
            values += call.args[1:2]
        texts += [
            ast.unparse(value)
            for value in values
            if isinstance(value, ast.JoinedStr | ast.Constant) and WORD.search(ast.unparse(value))
        ]
    return texts


@pytest.mark.parametrize("path", PAGE_CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_of_forms_and_notices_are_marked(path: Path) -> None:
    assert unmarked_in_code(path.read_text(encoding="utf-8")) == []


def test_unmarked_text_of_code_is_found() -> None:
    assert unmarked_in_code('Field(label="Name", help_text=_("Any"))') == ["'Name'"]
    assert unmarked_in_code('messages.info(request, f"{x} is saved.")') != []


def catalogue(code: str) -> list[Entry]:
    return read_catalogue(ROOT / "locale" / code / "LC_MESSAGES" / "django.po")


def translated(code: str) -> list[Entry]:
    """Return the finished entries. Pages show the others in English until they are translated for a release."""
    return [entry for entry in catalogue(code) if all(entry.translations) and not entry.is_fuzzy]


@pytest.mark.release
@pytest.mark.parametrize("code", ["en", *LANGUAGES])
def test_catalogue_holds_what_is_marked(code: str) -> None:
    """`make messages` brings them up to date."""
    known = {(entry.message.text, entry.message.context) for entry in catalogue(code)}
    assert {(message.text, message.context) for message in marked_messages()} - known == set()


@pytest.mark.release
@pytest.mark.parametrize("code", LANGUAGES)
def test_every_message_is_translated(code: str) -> None:
    done = translated(code)
    assert [entry.message.text for entry in catalogue(code) if entry not in done] == []


@pytest.mark.parametrize("code", LANGUAGES)
def test_translation_has_placeholders_of_its_message(code: str) -> None:
    for entry in translated(code):
        for text in entry.translations:
            assert places_of(text) <= entry.message.places, text
            assert entry.message.plural or places_of(text) == entry.message.places, text


@pytest.mark.parametrize("code", LANGUAGES)
def test_translation_has_html_tags_of_its_message(code: str) -> None:
    for entry in translated(code):
        for text in entry.translations:
            assert sorted(re.findall(r"<[^>]+>", text)) == sorted(re.findall(r"<[^>]+>", entry.message.text)), text


@pytest.mark.parametrize("code", LANGUAGES)
def test_compiled_catalogue_matches_its_source(code: str) -> None:
    path = ROOT / "locale" / code / "LC_MESSAGES" / "django.mo"
    with path.open("rb") as file:
        compiled = GNUTranslations(file)
    for entry in translated(code):
        message = entry.message
        if message.plural:
            said = {compiled.ngettext(message.text, message.plural, number) for number in range(1, 30)}
            assert said == set(entry.translations)
        elif message.context:
            assert (compiled.pgettext(message.context, message.text),) == entry.translations
        else:
            assert (compiled.gettext(message.text),) == entry.translations


def test_page_texts_avoid_technical_terms() -> None:
    """Texts use the words of docs/design-system.md: *result* for a hit, *by meaning* for embeddings."""
    said = (re.sub(r"<[^>]*>|%\(\w+\)s|{\w+}", "", entry.message.text).lower() for entry in catalogue("en"))
    machine = re.compile(r"\b(?:hits?|legs?|made up|what would be sent|embed\w*|corpus|ingest\w*|head of the list)\b")
    assert [text for text in said if machine.search(text)] == []


def test_words_used_by_scripts_are_listed() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "static/js").glob("*.js"))
    assert set(re.findall(r'\bword\(\s*"([^"]+)"', sources)) == set(SCRIPT_WORDS)
