"""Retention by age: puts conversations without a new message for long into the trash, as rules say.

A person's rules spare conversations with a star or pin, the operator's limits spare none; neither touches what is on
legal hold. Without a trash (TRASH_DAYS=0) what they find is deleted for good. Reasons: docs/adr/0105-legal-hold.md.
"""

import time
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller
from convmemory.accounts.holds import not_held
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.core.errors import InvalidInput, NotFound, OnLegalHold
from convmemory.core.numbers import MAX_BIGINT
from convmemory.retention.models import AgeRule, RetentionLimit, RetentionRule

BATCH = 100
MAX_RULES = 50  # of one owner
NOT_HELD = not_held(conversation="pk")


def found_by(rule: AgeRule) -> QuerySet[Conversation]:
    """Return the conversations that a rule puts into the trash now; a limit finds those of all owners."""
    end = timezone.now() - timedelta(days=rule.days)
    rows = Conversation.objects.filter(NOT_HELD, updated_at__lt=end)
    if rule.source:
        rows = rows.filter(source=rule.source)
    if rule.project:
        rows = rows.filter(project=rule.project)
    if isinstance(rule, RetentionRule):
        rows = rows.filter(archive_id=rule.archive_id, starred_at=None, pinned_at=None)
    return rows


def rules_of(*, caller: Caller) -> list[RetentionRule]:
    """Return the caller's rules, the oldest first."""
    return list(RetentionRule.objects.filter(archive_id=caller.archive_id).order_by("pk"))


@transaction.atomic
def add_rule(rule: RetentionRule, *, caller: Caller) -> RetentionRule:
    """Store a checked rule of the caller; return it, or the equal one that exists. Raises: InvalidInput."""
    rows = RetentionRule.objects.filter(archive_id=caller.archive_id)
    if same := rows.filter(source=rule.source, project=rule.project, days=rule.days).first():
        return same
    if rows.count() >= MAX_RULES:
        raise InvalidInput(f"There are {MAX_RULES} rules, which is the most: remove one first.")
    rule.save()
    record(Action.MADE, what=f"retention rule {rule.pk}", person_id=caller.person_id, about_id=caller.archive_id)
    return rule


@transaction.atomic
def remove_rule(*, caller: Caller, rule_id: int) -> None:
    """Remove a rule of the caller; what it put into the trash stays there. Raises: NotFound."""
    rows = RetentionRule.objects.filter(archive_id=caller.archive_id)
    if rule_id > MAX_BIGINT or not rows.filter(pk=rule_id).delete()[0]:
        raise NotFound(f"There is no retention rule {rule_id}.")
    record(Action.DELETED, what=f"retention rule {rule_id}", person_id=caller.person_id, about_id=caller.archive_id)


def apply_rules(*, caller: Caller, deadline: float) -> bool:
    """Put what the operator's limits and the owner's rules find into the trash, one by one, until `deadline`.

    Returns whether nothing is left. Each has a transaction of its own, so that a killed worker loses one.
    """
    for rule in (*RetentionLimit.objects.order_by("pk"), *rules_of(caller=caller)):
        rows = found_by(rule).filter(archive_id=caller.archive_id).order_by("pk")
        while batch := list(rows.values_list("pk", flat=True)[:BATCH]):
            for pk in batch:
                if time.monotonic() > deadline:
                    return False
                try:
                    ingest.delete_conversation(caller=caller, conversation_id=pk)
                except (NotFound, OnLegalHold):  # another worker, the owner, or staff was faster
                    continue
    return True


def owners_with_old(*, limit: int) -> list[int]:
    """Return owners of whose conversations a rule or limit finds some."""
    archive_ids: set[int] = set()
    for rule in RetentionLimit.objects.all():
        archive_ids.update(found_by(rule).order_by().values_list("archive_id", flat=True).distinct()[:limit])
    for rule_of_archive in RetentionRule.objects.order_by("pk").iterator(chunk_size=500):
        if len(archive_ids) >= limit:
            break
        if rule_of_archive.archive_id not in archive_ids and found_by(rule_of_archive).exists():
            archive_ids.add(rule_of_archive.archive_id)
    return sorted(archive_ids)[:limit]


def count_everywhere(rule: AgeRule) -> int:
    """Return how many conversations of all owners a limit finds now."""
    return found_by(rule).count()
