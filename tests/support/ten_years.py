"""Ten years of a made-up person's conversations, the same each time: projects that come and go, programs of their time.

For tests, and for looking at pages with a history. In a running installation:

    manage.py shell -c "from tests.support.ten_years import fill; fill('ada', 2000)"
"""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import transaction

from convmemory.accounts.models import Archive
from convmemory.conversations import curating
from convmemory.conversations.marking import set_mark
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from convmemory.conversations.statistics import count_changed
from convmemory.core.acting import in_archive_of
from convmemory.core.marks import Mark
from tests.factories import caller_for

TODAY = date(2026, 11, 27)
DAYS = 3_650


class Thread(NamedTuple):
    """A project: when it was worked on (parts of the ten years), how often, with which programs, and about what."""

    project: str
    first: float
    last: float
    weight: int
    programs: tuple[str, ...]
    subjects: tuple[str, ...]
    files: tuple[str, ...] = ()


THREADS = (
    Thread("", 0.0, 1.0, 6, ("chatgpt",), ("the neighbour's fence", "half marathon", "tax return", "sourdough")),
    Thread("/home/ada/home", 0.05, 1.0, 4, ("chatgpt", "claude"), ("attic insulation", "heat pump", "balcony garden")),
    Thread(
        "/home/ada/src/billing-service", 0.35, 0.9, 9, ("codex", "claude-code"),
        ("deadlock between payments and refunds", "nightly invoices", "rounding of cents"),
        ("apply.py", "refund.py", "tests/test_locks.py", "invoices.py"),
    ),
    Thread(
        "/home/ada/src/portal-backend", 0.55, 1.0, 10, ("claude-code",),
        ("JWT login for the portal", "rate limits", "slow list of users"),
        ("auth/keys.py", "settings.py", "users/views.py"),
    ),
    Thread(
        "/home/ada/src/city-bikes", 0.62, 0.8, 5, ("gemini", "cursor"), ("bike counter cleaning", "map of stations"),
        ("notebooks/clean.py", "map.ts"),
    ),
    Thread("/home/ada/thesis", 0.0, 0.3, 8, ("chatgpt",), ("related work", "chapter on peat bogs", "figures in LaTeX")),
    Thread(
        "/home/ada/src/ops", 0.4, 1.0, 3, ("claude-code", "codex"), ("backup restore", "certificate renewal"),
        ("deploy.sh", "restore.sh"),
    ),
    Thread("/home/ada/blog", 0.2, 0.95, 2, ("claude",), ("static site generator", "time zones"), ("posts/time.md",)),
    Thread(
        "/home/ada/src/garden-sensor", 0.86, 1.0, 6, ("claude-code",), ("soil moisture drift", "battery life"),
        ("firmware/main.c", "drift.py"),
    ),
)  # fmt: skip
OPENINGS = ("Why does this happen with {}?", "Help me with {}.", "What did we decide about {}?", "Next step for {}?")
OVERTURNS = "Use the plain variant for {} instead, the other one is too slow."
CONCLUSIONS = (
    "The cause was the order of the locks: both jobs take them by id now.",
    "It works: the tests pass, and the change is small.",
    "We keep the simple version and measure again in a month.",
    "Use the smaller one; it is quieter and costs less.",
)


def drafts(count: int, *, today: date = TODAY) -> Iterator[ConversationDraft]:
    """Yield conversations of the ten years before today, in no order."""
    dice = random.Random(10)
    weights = [thread.weight * (thread.last - thread.first) for thread in THREADS]
    for number in range(count):
        thread = dice.choices(THREADS, weights)[0]
        # Programs are used more each year, and less in summer.
        share = thread.first + (thread.last - thread.first) * dice.random() ** 0.6
        day = today - timedelta(days=int(DAYS * (1 - share)))
        if day.month in (7, 8) and dice.random() < 0.5:
            day -= timedelta(days=62)
        begun = datetime(day.year, day.month, day.day, dice.randrange(7, 23), dice.randrange(60), tzinfo=UTC)
        subject = dice.choice(thread.subjects)
        yield ConversationDraft(
            messages=list(_messages(dice, thread, subject, begun)),
            source="made-up",
            source_id=f"ten-years-{number}",
            title=subject[:1].upper() + subject[1:],
            agent=dice.choice(thread.programs),
            project=thread.project,
            created_at=begun,
        )


def _messages(dice: random.Random, thread: Thread, subject: str, begun: datetime) -> Iterator[MessageDraft]:
    at = begun
    for number in range(dice.choice((1, 1, 2, 3, 5, 8))):
        # Some conversations go on after days.
        at += timedelta(days=dice.randrange(1, 5)) if number and dice.random() < 0.15 else timedelta(minutes=4)
        opening = dice.choice(OPENINGS if number != 6 else (OVERTURNS,))
        yield MessageDraft("user", (TextPart(opening.format(subject)),), created_at=at)
        if thread.files:
            path = dice.choice(thread.files)
            edit = {
                "file_path": f"{thread.project}/{path}",
                "old_string": "old = 1\n",
                "new_string": f"new = {number}\n",
            }
            yield MessageDraft("assistant", (ToolCallPart("c1", "Edit", edit),), created_at=at)
            yield MessageDraft("tool", (ToolResultPart("c1", "The file has been updated."),), created_at=at)
            run = ToolCallPart("c2", "Bash", {"command": "pytest -q"})
            yield MessageDraft("assistant", (run,), created_at=at)
            result = "2 passed" if dice.random() < 0.8 else "1 failed\nExit code 1"
            yield MessageDraft("tool", (ToolResultPart("c2", result, is_error="failed" in result),), created_at=at)
        answer = f"On {subject}: {dice.choice(CONCLUSIONS)}"
        yield MessageDraft("assistant", (TextPart(answer),), created_at=at + timedelta(minutes=1))


def make_ten_years(owner: User | Archive, count: int, *, today: date = TODAY) -> list[Conversation]:
    """Store the conversations, star and mark some of them, and count them for the statistics."""
    dice, caller = random.Random(11), caller_for(owner)
    with in_archive_of(owner.pk), transaction.atomic():
        made = [ingest.create_conversation(caller=caller, draft=draft) for draft in drafts(count, today=today)]
        for row in dice.sample(made, min(len(made), 4 + count // 60)):
            curating.set_star(caller=caller, conversation_id=row.pk, starred=True)
        for row in dice.sample(made, min(len(made), 2 + count // 200)):
            kind, note = dice.choice((("outdated", "We use EdDSA now."), ("wrong", "")))
            set_mark(caller=caller, conversation_id=row.pk, turn_number=0, mark=Mark(kind, note))  # type: ignore[arg-type]
        while count_changed(archive_id=owner.pk):
            pass
    return made


def fill(username: str, count: int) -> None:
    """Store the conversations in the archive of a user of the installation, up to today."""
    user = User.objects.get(username=username)
    print(len(make_ten_years(user, count, today=datetime.now(UTC).date())), "conversations")
