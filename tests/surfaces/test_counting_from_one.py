"""People count turns, messages and sections from one, on every page that shows a number."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from convmemory.accounts.callers import Caller
from convmemory.conversations import sharing
from convmemory.conversations.marking import set_mark
from convmemory.core.marks import Mark
from search.adapters.conversations import index_conversation
from summaries import ordering
from tests.factories import exchange, make_conversation
from tests.support.planted_keys import PLANTED

pytestmark = pytest.mark.django_db

OF_A_CONVERSATION = (
    "", "?turn=0", "?turn=7", "/outline?turn=0", "/outline?find=kiln", "/summaries", "/events", "/context", "/share",
    "/keys", "/messages/0/parts/0",
)  # fmt: skip
FROM_ZERO = re.compile(r"\b(turns?|messages?|sections?)(:| number)? #?0\b|#0\b|\b0 / \d|\d, the last", re.IGNORECASE)
_TEXT = re.compile(
    r'(?:aria-label|title|placeholder)="([^"]*)"|<script.*?</script>|<style.*?</style>|<[^>]*>', re.DOTALL
)


def visible_text(html: str) -> str:
    """Return what a person reads or hears: the text, and the attributes that are read out."""
    return " ".join(_TEXT.sub(lambda tag: f" {tag[1] or ''} ", html).split())


def test_pages_show_no_number_from_zero(owner: User, browser: Client) -> None:
    pairs = [
        ("how hot is the kiln?", f"The kiln has 1240, {next(iter(PLANTED.values()))}."),
        ("and the glaze?", "Ash."),
    ]
    read = make_conversation(owner, exchange(*pairs), title="Kiln")
    index_conversation(conversation_id=read.pk)
    caller = Caller.of(owner)
    set_mark(caller=caller, conversation_id=read.pk, turn_number=0, mark=Mark("wrong", ""))
    sharing.create_link(caller=caller, conversation_id=read.pk, turn=0, days=7, audience="people")
    ordering.request_summary(caller=caller, conversation_id=read.pk, from_position=0, to_position=1)
    path = f"/conversations/{read.pk}"
    pages = [f"{path}{end}" for end in OF_A_CONVERSATION]
    pages += [
        "/",
        "/library",
        "/search?q=kiln",
        f"/search/preview{path}?turn=0",
        "/recall?query=kiln",
        "/settings/links",
        f"/api/v1{path}/export?format=html",
    ]
    for page in pages:
        answer = browser.get(page, follow=True)
        assert answer.status_code == 200, page
        text = visible_text(b"".join(answer).decode())
        assert not FROM_ZERO.search(text), (page, FROM_ZERO.search(text))
