"""Switches searches to a space that was built, in one step.

One transaction changes the active space, the changes still to be indexed, and the items that the new model refused.
Searches continue meanwhile: each reads the active space once and then the rows of that space alone.
"""

from collections.abc import Mapping
from functools import partial

from django.db import connection, transaction
from django.db.utils import OperationalError

from convmemory.core.errors import ConvMemoryError, InvalidInput
from convmemory.core.postgres.archives import for_all_archives
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import activate_space, active_space
from search.models import Item, Source

# While the switch waits for the lock, every writer of index states waits behind it.
LOCK_TIMEOUT_S = 5


class NotBuilt(ConvMemoryError):
    """Searchable sources are not yet in the new space, or are being indexed at this moment."""

    def __init__(self, source_ids: list[int]) -> None:
        self.source_ids = source_ids
        super().__init__(f"{len(source_ids)} sources are not in the new space as they are now.")


def switch_to(space: EmbeddingSpace) -> None:
    """Make `space`, which is being built, the active one.

    Concurrent changes wait for it: a second or two with 100,000 conversations.

    Raises:
        InvalidInput: it is not being built.
        NotBuilt: a searchable item of the active space would be lost; nothing was changed.
    """
    try:
        with transaction.atomic():
            parameters = {"space": space.pk, "active": active_space().pk}
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'")
            list(for_all_archives(_lock_index_states))
            if not EmbeddingSpace.objects.filter(pk=space.pk, is_building=True).exists():
                raise InvalidInput(f"{space} is not being built: another process switched to it or gave it up.")
            with connection.cursor() as cursor:
                cursor.execute(load_sql("search.indexing", "space_laggards"), {"space": space.pk})
                if laggards := [row[0] for row in cursor.fetchall()]:
                    raise NotBuilt(laggards)
            list(for_all_archives(partial(_take_over, parameters)))
            activate_space(space)
    # The lock timeout: a source is being indexed at this moment.
    except OperationalError as error:
        raise NotBuilt([]) from error
    space.is_active, space.is_building = True, False


def _lock_index_states() -> None:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "lock_index_states"))


def _take_over(parameters: Mapping[str, int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "take_over_changes"), parameters)
        Item.objects.exclude(error="").update(error="")
        cursor.execute(load_sql("search.indexing", "take_over_refusals"), parameters)
    Source.objects.exclude(behind_since=None).update(behind_since=None)  # the builder has indexed most of them
