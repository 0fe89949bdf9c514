"""Which conversations are not in a space as they should be: missing, stale or failed.

What the index states claim is compared with the rows themselves, so that damage is found too.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from django.db import connection
from django.db.models import F, Q
from django.db.models.functions import Coalesce, Least

from convmemory.conversations.models import Conversation
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from search.indexing.building import conversations_to_build
from search.models import ConversationIndex, SpaceProgress

Kind = Literal["missing", "stale", "failed"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose and which conversations; None means any."""

    owner_id: int | None = None
    conversation_id: int | None = None
    since: datetime | None = None

    @property
    def is_everything(self) -> bool:
        return self == Scope()

    @property
    def condition(self) -> Q:
        """On conversations."""
        chosen = {"owner_id": self.owner_id, "pk": self.conversation_id, "updated_at__gte": self.since}
        return Q(**{name: value for name, value in chosen.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Damage:
    """Turns of a conversation whose vectors are not what its documents ask for, the first of them, and how many."""

    conversation_id: int
    first_turn: int
    turns: int


def find_damage(
    space: EmbeddingSpace, kinds: tuple[Kind, ...], scope: Scope | None = None, *, limit: int | None = None
) -> list[Damage]:
    """Conversations that count as indexed in the active space and have turns of these kinds. Reads every turn."""
    scope = scope or Scope()
    parameters: dict[str, Any] = {
        "space": space.pk,
        "kinds": list(kinds),
        "owner": scope.owner_id,
        "conversation": scope.conversation_id,
        "since": scope.since,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "damaged_turns"), parameters)
        return [Damage(*row) for row in cursor.fetchall()]


def mark_damage(damages: list[Damage]) -> int:
    """Let the index states say that these conversations are behind, from their first damaged turn on; how many."""
    states = {
        state.pk: state for state in ConversationIndex.objects.filter(pk__in=[d.conversation_id for d in damages])
    }
    for damage in damages:
        if state := states.get(damage.conversation_id):
            state.indexed_version, state.attempts = 0, 0
            # A change may have been noted since the damage was found: the earlier turn of the two counts.
            state.dirty_from = Least(Coalesce(F("dirty_from"), damage.first_turn), damage.first_turn)
    return ConversationIndex.objects.bulk_update(states.values(), ["indexed_version", "dirty_from", "attempts"], 1_000)


def select_active(space: EmbeddingSpace, scope: Scope, kinds: tuple[Kind, ...], *, mark: bool = True) -> dict[int, int]:
    """Conversations to index again in the active space, with their numbers of turns; damage is marked if asked."""
    conditions: dict[Kind, Q] = {
        "missing": Q(index_state=None),
        "stale": Q(index_state__error="")
        & (~Q(index_state__indexed_version=F("turns_version")) | ~Q(index_state__space=space)),
        "failed": Q(index_state__isnull=False) & ~Q(index_state__error=""),
    }
    behind = Q()
    for kind in kinds:
        behind |= conditions[kind]
    damages = find_damage(space, kinds, scope)
    if mark:
        mark_damage(damages)
    damaged = Q(pk__in=[damage.conversation_id for damage in damages])
    return _with_turns(Q(scope.condition, behind | damaged, turns_version__gt=0))


def select_building(space: EmbeddingSpace, scope: Scope, kinds: tuple[Kind, ...]) -> dict[int, int]:
    """Conversations that a space which is being built does not hold as they are, with their numbers of turns."""
    if kinds == KINDS:
        return dict(conversations_to_build(space, scope.condition).values_list("pk", "turn_count"))
    of_space = SpaceProgress.objects.filter(space=space)
    conditions: dict[Kind, Q] = {
        "missing": ~Q(pk__in=of_space.values("conversation")),
        "stale": Q(pk__in=of_space.exclude(indexed_version=F("conversation__turns_version")).values("conversation")),
        "failed": Q(pk__in=of_space.exclude(error="", refused={}).values("conversation")),
    }
    wanted = Q()
    for kind in kinds:
        wanted |= conditions[kind]
    return _with_turns(Q(scope.condition, wanted, turns_version__gt=0))


def _with_turns(condition: Q) -> dict[int, int]:
    return dict(Conversation.objects.filter(condition).order_by("-turn_count").values_list("pk", "turn_count"))
