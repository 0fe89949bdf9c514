"""No user ever gets another user's row: two to five users, random conversations, random questions, every surface.

Three worlds share a space: its manager, contributor and reader get its rows, a former member, strangers and those who
have not accepted their invitation none.

Answers are searched as the bytes that the caller gets: another user's secret in them is a leak. The four worlds share
one database and are indexed once; each example draws a caller, a question, other users' ids, and arguments of tools
from the tools' own schemas. Whatever chance draws, each surface is asked at least once about rows that its caller may
not read, and shows the caller's own text. ISOLATION_CASES is how many cases are drawn before: 240,
120 in `make test`, and 10,000 in `make isolation`. Each surface is asked about rows of others once more with the
application's own filters switched off: then the database alone keeps owners apart. And once without the policies: then
the application alone does. These two ask each tool in one way for each kind of key: the others read the same rows.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from random import Random

import httpx2
import pytest
from django.conf import settings
from pytest_django import DjangoDbBlocker

from convmemory.chat.models import Agent
from convmemory.conversations.models import Conversation
from convmemory.core.acting import Login, acting_for
from convmemory.core.models import OwnerGroup
from convmemory.core.postgres import groups, logins
from convmemory.documents import processing
from convmemory.documents.models import Document
from convmemory.retention.models import RetentionRule
from convmemory.tools.registry import tool_named
from summaries.models import ConversationSummary
from tests.factories import exchange, make_conversation, make_user
from tests.support import asgi_server
from tests.support.documents import convert_here
from tests.support.groups import GROUPS, spread_database
from tests.support.no_owner_filters import filters_switched_off
from tests.support.run_database import empty_tables
from tests.surfaces.isolation_asks import Ask, draw_ask, is_refused
from tests.surfaces.isolation_surfaces import (
    NEVER_SHOW_TEXT,
    OF_INVITED,
    OF_TRASH,
    ONE_WAY_EACH,
    SURFACES,
    TOOL_OF,
    TOOLS,
)
from tests.surfaces.isolation_town import TRASHED, Town, settle_worlds

CASES = int(os.environ.get("ISOLATION_CASES", "240"))
SURFACES_AT_ONCE = 8
CASES_OF_GROUPS = CASES // 4
ROUNDS_ABOUT_OTHERS = max(1, CASES // 240)
LEAST_STATEMENTS_WITHOUT_FILTER = 100  # different ones
LEAST_SURFACES_OF_SPACES = 4  # of some 40 that can; chance decides in few cases
ROUNDS_MORE = 200  # at most, of what chance has left out
LEAST_SHARE_OF_VALID_ARGUMENTS = 0.95


@pytest.fixture(scope="module")
def town(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Town]:
    """All worlds, indexed once for the module, and a server on their database."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "RECALL_THRESHOLD", 0.0)  # recall brings as much as it can
        patch.setattr(settings, "CHAT_BASE_URL", "http://127.0.0.1:9/v1")  # for dry runs; never called
        patch.setattr(settings, "CHAT_MODEL", "some-model")
        patch.setattr(processing, "run_child", convert_here)
        worlds, spaces = settle_worlds()
        with asgi_server.serve() as address, httpx2.Client(base_url=address, timeout=60) as http:
            yield Town(worlds, spaces, http)
        empty_tables()


class Tally:
    """Counts of requests, of answers with the caller's own text, and of the tools' arguments."""

    def __init__(self, surfaces: Collection[str] = SURFACES) -> None:
        self.surfaces = surfaces
        self.cases: Counter[str] = Counter()
        self.own: Counter[str] = Counter()
        self.shared: Counter[str] = Counter()
        self.foreign: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.arguments: Counter[str] = Counter()

    def ask(self, town: Town, name: str, ask: Ask) -> None:
        status, body = SURFACES[name](town, ask)
        assert status < 500, (name, ask, body)
        leaked = [
            person.secret
            for person in town.others(ask.caller)
            if person.secret.encode() in body and not (name in OF_INVITED and ask.caller.user.pk in person.invited)
        ]
        assert not leaked, (name, leaked, ask)
        assert name in OF_TRASH or TRASHED.encode() not in body, (name, "shows what is in the trash", ask)
        self.cases[name] += 1
        self.own[name] += ask.caller.secret.encode() in body
        if not ask.victim.is_read_by(ask.caller):
            self.foreign[name] += 1
        elif ask.victim is not ask.caller:
            self.shared[name] += ask.victim.secret.encode() in body
        if tool := TOOL_OF.get(name):
            self.refused[name] += is_refused((status, body))
            self.arguments.update(f"{tool}.{argument}" for argument in ask.arguments[tool])

    def silent(self) -> list[str]:
        """The surfaces that have not shown even the caller's own text yet, though they could."""
        return sorted({name for name in self.surfaces if not self.own[name]} - NEVER_SHOW_TEXT)

    def unused_arguments(self) -> set[str]:
        """Return the arguments, as `tool.argument`, that no case has had."""
        declared = {f"{tool}.{name}" for tool in TOOLS for name in tool_named(tool).input_schema["properties"]}
        return declared - set(self.arguments)

    def without_foreign(self) -> list[str]:
        """Return the surfaces that no caller has asked about rows that the caller may not read."""
        return sorted(set(self.surfaces) - set(self.foreign))

    def left_out(self) -> list[str]:
        """Return a surface of each tool with unused arguments, and some more while spaces were hardly shown."""
        hardly = [] if len(+self.shared) > LEAST_SURFACES_OF_SPACES else sorted(+self.own)[::SURFACES_AT_ONCE]
        unused = {argument.partition(".")[0] for argument in self.unused_arguments()}
        ways = {tool: name for name, tool in reversed(TOOL_OF.items()) if name in self.surfaces and tool in unused}
        return sorted({*ways.values(), *hardly})

    def judge(self, cases: int) -> None:
        assert self.cases.total() >= cases
        assert not self.without_foreign()
        silent = self.silent()
        assert len(+self.shared) > LEAST_SURFACES_OF_SPACES, "spaces were hardly shown to their members"
        assert not silent, "these surfaces never showed even the caller's own text, so they were not tested"
        called = sum(self.cases[name] for name in TOOL_OF)
        assert 1 - self.refused.total() / called >= LEAST_SHARE_OF_VALID_ARGUMENTS, self.refused
        assert not self.unused_arguments(), "no case had these arguments"


def rows() -> list[int]:
    return [
        Conversation.objects.count(), Conversation.with_trash.count(), Agent.objects.count(),
        ConversationSummary.objects.count(), Document.objects.count(), Document.with_trash.count(),
        RetentionRule.objects.count(),
    ]  # fmt: skip


def ask_all(town: Town, tally: Tally, random: Random, names: list[str], *, is_own: bool | None = None) -> None:
    """Ask these surfaces once each, some about the same rows."""
    for start in range(0, len(names), SURFACES_AT_ONCE):
        some = names[start : start + SURFACES_AT_ONCE]
        ask = draw_ask(town, random, [TOOL_OF[name] for name in some if name in TOOL_OF], is_own)
        for name in some:
            tally.ask(town, name, ask)


def ask_everything(town: Town, cases: int, surfaces: Collection[str] = SURFACES) -> None:
    """Ask that often, and judge that nothing leaked and nothing was left out. The cases are the same in every run."""
    tally, before, random = Tally(surfaces), rows(), Random(cases)
    ask = partial(ask_all, town, tally, random)
    for _ in range(cases // SURFACES_AT_ONCE + 1):
        ask(random.sample(sorted(surfaces), SURFACES_AT_ONCE))
    for _ in range(ROUNDS_MORE):
        ask(tally.silent(), is_own=True)
        ask(tally.without_foreign(), is_own=False)
        ask(tally.left_out())
    tally.judge(cases)
    assert all(now >= then for now, then in zip(rows(), before, strict=True)), "something was removed"


def test_no_surface_shows_or_removes_another_users_row(town: Town) -> None:
    ask_everything(town, CASES)


def ask_about_others(town: Town) -> None:
    """Ask each surface about rows that its caller may not read; that it shows the caller's own is tested above."""
    before = rows()
    for number in range(ROUNDS_ABOUT_OTHERS):
        ask_all(town, Tally(), Random(number), sorted(ONE_WAY_EACH), is_own=False)
    assert all(now >= then for now, then in zip(rows(), before, strict=True)), "something was removed"


def test_database_alone_keeps_owners_apart(town: Town) -> None:
    with filters_switched_off() as switched_off:
        ask_about_others(town)
    assert len(switched_off) >= LEAST_STATEMENTS_WITHOUT_FILTER


def test_application_alone_keeps_owners_apart(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a filter that is missing is noticed, although the policies would hide its rows."""
    monkeypatch.setattr(logins, "ROLES", {})  # all connections become the owner of the tables, whom no policy binds
    ask_about_others(town)


@pytest.mark.slow
def test_no_surface_shows_another_users_row_over_groups(town: Town) -> None:
    with spread_database():
        assert groups.layout().groups == tuple(range(1, GROUPS + 1))
        assert len(set(OwnerGroup.objects.values_list("number", flat=True))) == GROUPS
        ask_everything(town, CASES_OF_GROUPS, ONE_WAY_EACH)


@pytest.mark.django_db(transaction=True)
def test_rows_leak_without_filters_and_policies() -> None:
    """So the other test shows that the policies hold, not that there was nothing to hold."""
    owners = make_user(), make_user()
    for owner in owners:
        make_conversation(owner, exchange(("who asks?", "somebody")))
    with filters_switched_off(Login.APP, Login.SCHEMA):
        assert Conversation.objects.filter(archive_id=owners[0].pk).count() == 2
        with acting_for(owners[0].pk):
            assert Conversation.objects.filter(archive_id=owners[0].pk).count() == 1
