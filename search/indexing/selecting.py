"""Selects the sources whose rows in a space have defects: missing, stale or failed.

Compares the recorded index states with the rows themselves, so that damage is found too.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from django.db import connection
from django.db.models import F, Q
from django.db.models.functions import Coalesce, Least

from convmemory.core.acting import in_group
from convmemory.core.groups import every_group
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from search.indexing.building import sources_to_build
from search.indexing.sweeping import with_state
from search.models import SourceIndex
from search.sources import kinds_without_vectors

Defect = Literal["missing", "stale", "failed"]
DEFECTS: tuple[Defect, ...] = get_args(Defect)


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of sources by owner, id and time; None means any."""

    owner_id: int | None = None
    source_id: int | None = None
    since: datetime | None = None

    @property
    def is_everything(self) -> bool:
        return self == Selection()

    @property
    def condition(self) -> Q:
        """Return the condition on sources."""
        chosen = {"owner_id": self.owner_id, "pk": self.source_id, "updated_at__gte": self.since}
        return Q(**{name: value for name, value in chosen.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Damage:
    """Items of a source whose vectors do not match its lexical documents: the first of them, and their number."""

    source_id: int
    first_item: int
    items: int


def find_damage(
    space: EmbeddingSpace, defects: tuple[Defect, ...], selection: Selection | None = None, *, limit: int | None = None
) -> list[Damage]:
    """Return the sources that count as indexed in the active space but have items with these defects.

    Reads all items.
    """
    selection = selection or Selection()
    parameters: dict[str, Any] = {
        "space": space.pk,
        "defects": list(defects),
        "without_vectors": kinds_without_vectors(),
        "owner": selection.owner_id,
        "source": selection.source_id,
        "since": selection.since,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "damaged_items"), parameters)
        return [Damage(*row) for row in cursor.fetchall()]


def mark_damage(damages: list[Damage], space: EmbeddingSpace) -> int:
    """Mark these sources as behind from their first damaged item on; return their number."""
    rows = SourceIndex.objects.filter(space=space, source_id__in=[damage.source_id for damage in damages])
    marked = 0
    for group in every_group() if damages else ():
        with in_group(group):
            states = {state.source_id: state for state in rows.all()}
            for damage in damages:
                if state := states.get(damage.source_id):
                    state.indexed_version, state.attempts = 0, 0
                    # A change may have been noted since the damage was found: the earlier item of the two counts.
                    state.dirty_from = Least(Coalesce(F("dirty_from"), damage.first_item), damage.first_item)
            fields = ["indexed_version", "dirty_from", "attempts"]
            marked += SourceIndex.objects.bulk_update(states.values(), fields, 1_000)
    return marked


def select_active(
    space: EmbeddingSpace, selection: Selection, defects: tuple[Defect, ...], *, mark: bool = True
) -> dict[int, int]:
    """Return the sources to index again in the active space, with their numbers of items; with `mark`, record
    damage.
    """
    damages = find_damage(space, defects, selection)
    if mark:
        mark_damage(damages, space)
    damaged = Q(pk__in=[damage.source_id for damage in damages])
    return _with_items(space, selection.condition & (_behind(defects) | damaged))


def select_building(space: EmbeddingSpace, selection: Selection, defects: tuple[Defect, ...]) -> dict[int, int]:
    """Return the sources that are not up to date in a space that is being built, with their numbers of items."""
    if defects == DEFECTS:
        return dict(sources_to_build(space, selection.condition).values_list("pk", "item_count"))
    refused = Q(state__isnull=False) & ~Q(state__refused={}) if "failed" in defects else Q(pk__in=[])
    return _with_items(space, selection.condition & (_behind(defects) | refused))


def _behind(defects: tuple[Defect, ...]) -> Q:
    """Return the condition on sources with their state in a space."""
    conditions: dict[Defect, Q] = {
        "missing": Q(state__isnull=True),
        "stale": Q(state__error="") & ~Q(state__indexed_version=F("version")),
        "failed": Q(state__isnull=False) & ~Q(state__error=""),
    }
    behind = Q(pk__in=[])
    for defect in defects:
        behind |= conditions[defect]
    return behind


def _with_items(space: EmbeddingSpace, condition: Q) -> dict[int, int]:
    chosen = with_state(space).filter(condition, version__gt=0).order_by("-item_count")
    return dict(chosen.values_list("pk", "item_count"))
