"""How far the caller's archive is indexed; what the page's progress bar shows."""

from dataclasses import asdict, dataclass

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection

from convmemory.core.sql import load_sql
from convmemory.embeddings.spaces import active_space


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Counts over one owner; `pending` and `failed` are turns."""

    turns: int
    embedded_turns: int
    messages: int
    passages: int
    pending: int
    failed: int

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def index_status(*, owner: AbstractBaseUser) -> IndexStatus:
    """One query over the caller's conversations and their index states."""
    from search.indexing import MAX_ATTEMPTS

    with connection.cursor() as cursor:
        cursor.execute(
            load_sql("search", "index_status"),
            {"owner": owner.pk, "space": active_space().pk, "max_attempts": MAX_ATTEMPTS},
        )
        turns, messages, passages, pending, given_up, failed = cursor.fetchone()
    failed = failed + given_up
    return IndexStatus(
        turns=turns,
        embedded_turns=max(0, turns - pending - failed),
        messages=messages,
        passages=passages,
        pending=pending,
        failed=failed,
    )
