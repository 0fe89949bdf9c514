"""The messages that a model already sees. Recall neither returns them nor spends tokens on them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db import connection

from convmemory.core.numbers import MAX_BIGINT
from convmemory.core.sql import load_sql
from memory.recalled import ChunkId, RecalledMessage


@dataclass(frozen=True, slots=True)
class Alive:
    """Messages named by id, and all messages of one conversation from a position on."""

    message_ids: frozenset[int] = frozenset()
    conversation_id: int | None = None
    from_position: int | None = None

    def holds(self, *, message_id: int, conversation_id: int, position: int) -> bool:
        """Return whether the model sees this message."""
        if message_id in self.message_ids:
            return True
        return (
            self.from_position is not None
            and conversation_id == self.conversation_id
            and position >= self.from_position
        )


def alive_among(message_ids: Collection[int]) -> frozenset[int]:
    """Those that can be message ids at all."""
    return frozenset(number for number in message_ids if 0 < number <= MAX_BIGINT)


def alive_turns(*, owner_id: int, message_ids: Collection[int]) -> tuple[tuple[int, int], ...]:
    """Return the owner's turns (conversation, number) whose messages are all alive. At most one query."""
    if not message_ids:
        return ()
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "alive_turns"), {"owner": owner_id, "messages": list(message_ids)})
        return tuple((conversation, number) for conversation, number in cursor.fetchall())


def alive_passages(messages: Sequence[RecalledMessage], alive: Alive) -> frozenset[ChunkId]:
    """Return the keys of passages and openings of recalled messages that the model already sees."""
    openings = [
        (message.conversation_id, opening.position, opening.passage)
        for message in messages
        for opening in (message.question_opening, message.answer_opening)
        if opening
    ]
    passages = [(m.conversation_id, m.position, passage) for m in messages for passage in m.passages]
    return frozenset(
        passage.key
        for conversation_id, position, passage in (*openings, *passages)
        if alive.holds(message_id=passage.message_id, conversation_id=conversation_id, position=position)
    )
