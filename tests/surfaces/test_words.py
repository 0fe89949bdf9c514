"""No page of people shows the words of operators, of programs, or of this code."""

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from convmemory.chat.models import Agent
from convmemory.conversations.models import Import
from convmemory.documents.models import Document
from convmemory.tools.registry import TOOLS
from tests.factories import make_conversation
from tests.surfaces.test_page_queries import OF_A_CONVERSATION, ROOMS, add_one_of_each

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents_here")]

FURTHER = (
    "/settings/account", "/settings/appearance", "/settings/password", "/settings/account/delete", "/agents/new",
    "/library?archived=1", "/recall", "/search?q=nothing+of+this+kind+anywhere", "/palette", "/design",
)  # fmt: skip
NAMES_OF_TOOLS = "/settings/connect"  # people allow an agent to call them there, and agents ask by these names
NOT_FOR_PEOPLE = re.compile(
    r"`|manage\.py|\b[A-Z][A-Z0-9]+_[A-Z0-9_]+\b|[Ll]east likelihood|[Bb]udget in tokens|\b[Ss]uperseded\b|Other rows"
    r"|\bmode '|\bin \d+ places?\b"
)
_TOOL = re.compile(rf"\b(?:{'|'.join(tool.name for tool in TOOLS)})\b")
_NOT_PROSE = re.compile(r"<(script|style|template|pre|code)\b.*?</\1>", re.DOTALL)
_ATTRIBUTE = re.compile(r'\b(?:title|aria-label|placeholder|alt)="([^"]*)"')
_TAG = re.compile(r"<[^>]*>")


def words_of(page: str) -> str:
    shown = _NOT_PROSE.sub(" ", page)
    return unescape(" ".join([_TAG.sub(" ", shown), *_ATTRIBUTE.findall(shown)]))


def test_pages_show_no_words_of_operators_and_programs(page: Callable[..., str], owner: User) -> None:
    main = make_conversation(owner, [], title="Main", source="claude-code", source_id="main", project="/src/main")
    add_one_of_each(owner, main, 0)
    Import.objects.create(archive_id=owner.pk, name="waits.zip", size=1, file="x")
    own = [reverse("agent", args=[Agent.objects.get().pk]), reverse("document", args=[Document.objects.get().pk])]
    of_main = [main.get_absolute_url() + rest for rest in OF_A_CONVERSATION]
    found = {
        (address, word)
        for address in (*ROOMS, *FURTHER, *own, *of_main)
        for text in [words_of(page(address))]
        for word in [*NOT_FOR_PEOPLE.findall(text), *(_TOOL.findall(text) if address != NAMES_OF_TOOLS else ())]
    }
    assert found == set()
