"""Background tasks of memory: each loads rows by id, calls one function and returns a small dict."""

from collections.abc import Sequence
from typing import Any

from convmemory.core.measuring import timed
from convmemory.core.postgres.archives import over_all_archives
from convmemory.core.queue.fair_queue import asked_for, enqueue_for, slice_end, task
from memory import records
from memory.embedding import embed_messages

EMBED = "memory.tasks.embed"
# The pause before a conversation is tried again that another worker is embedding.
BUSY_PAUSE_S = 5.0


def enqueue_embed(*, archive_id: int, conversation_id: int, message_ids: Sequence[int]) -> None:
    """Enqueue the embedding of messages of one conversation."""
    enqueue_for(archive_id, EMBED, conversation_id, list(message_ids), group="embed")


@task()
def embed(conversation_id: int, message_ids: list[int], *, archive_id: int) -> dict[str, Any]:
    """Embed the messages until the slice ends."""
    result = embed_messages(
        archive_id=archive_id, conversation_id=conversation_id, message_ids=message_ids, deadline=slice_end()
    )
    done = {"finished": result.finished, "completed": result.completed, "failed": result.failed}
    return done if result.finished else done | {"again_in_s": BUSY_PAUSE_S if result.busy else 0.0}


@over_all_archives
def sweep() -> dict[str, Any]:
    """Enqueue messages whose embedding was missed; scheduled every minute."""
    with timed("sweep", label="messages") as measurement:
        given_up = records.give_up_dead()
        in_hand = {args[0] for args in asked_for(EMBED).values_list("args", flat=True)}
        messages = records.messages_to_embed(limit=1_000, except_of=in_hand)
        for (archive_id, conversation_id), message_ids in messages.items():
            enqueue_embed(archive_id=archive_id, conversation_id=conversation_id, message_ids=message_ids)
        measurement.items = sum(map(len, messages.values()))
    return {"enqueued": measurement.items, "given_up": given_up}
