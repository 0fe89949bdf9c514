"""What search does when turns change: note from which turn on, and ask a worker to index them."""

from typing import Any

from django.db import connection

from convmemory.core.sql import load_sql
from search.tasks import enqueue_index


def on_turns_changed(sender: Any, *, conversation_id: int, owner_id: int, first_turn: int, **kwargs: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "note_change"), [conversation_id, owner_id, first_turn])
    enqueue_index(conversation_id)
