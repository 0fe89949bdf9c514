"""Rows that can lie in the trash, and for how long.

`objects` leaves them out, so that lists, pages and searches need no condition of their own; `with_trash` has all rows.
Relations do not know managers: a query over rows that belong to such a row adds `outside_trash`.
"""

from datetime import UTC, datetime, timedelta
from typing import Self, TypeVar

from django.db import models
from django.db.models import Q, QuerySet
from django.utils import timezone

from convmemory.core.config import config

DUE_NOW = datetime(1970, 1, 1, tzinfo=UTC)  # in the trash longer than any TRASH_DAYS

M = TypeVar("M", bound=models.Model)


class OutsideTrash(models.Manager[M]):
    def get_queryset(self) -> QuerySet[M]:
        return super().get_queryset().filter(trashed_at=None)


class Trashable(models.Model):
    """A row that its owner can put into the trash."""

    trashed_at = models.DateTimeField(null=True, blank=True, help_text="Since then it has been in the trash.")

    objects = OutsideTrash[Self]()
    with_trash = models.Manager[Self]()

    class Meta:
        abstract = True


def outside_trash(relation: str) -> Q:
    """Return the condition that the row that `relation` leads to is not in the trash."""
    return Q(**{f"{relation}__trashed_at": None})


def last_expired() -> datetime:
    """Return the time before which rows must have been put into the trash to be deleted for good."""
    return timezone.now() - timedelta(days=config.trash_days)
