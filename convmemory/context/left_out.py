"""Recalls messages that a context left out and that concern the question, with their openings.

Searches one conversation as its owner, with the queries of one recall.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Max

from convmemory.conversations.models import Message
from convmemory.core.errors import SwitchedOff
from convmemory.core.text import one_line
from memory.context import build_memory_context
from memory.recall import recall
from memory.recalled import RecalledMessage
from search.query import MAX_QUERY_CHARS, MIN_QUERY_CHARS

# More than fit usually: some of the messages found are still in the context and are dropped.
TOP_K = 20


@dataclass(frozen=True, slots=True)
class LeftOutRecall:
    """`convmemory.context.values.Recall` for one conversation of `owner`."""

    owner: AbstractBaseUser
    conversation_id: int
    encoding: str

    def __call__(self, question: str, left_out: Sequence[int], max_tokens: int) -> str:
        """Return fenced passages of the messages `left_out`, in at most `max_tokens` tokens; "" if nothing is found."""
        query = one_line(question, MAX_QUERY_CHARS)
        if len(query) < MIN_QUERY_CHARS:
            return ""
        gone_messages = Message.objects.filter(owner_id=self.owner.pk, pk__in=left_out)
        newest = gone_messages.aggregate(position=Max("position"))["position"] or 0
        try:
            found = recall(
                owner=self.owner,
                query=query,
                top_k=TOP_K,
                conversation_id=self.conversation_id,
                before_position=newest + 1,
            )
        except SwitchedOff:
            return ""
        gone = frozenset(left_out)
        messages = [message for message in found.messages if message.message_id in gone]
        alive = _openings(messages, gone)
        return build_memory_context(messages, max_tokens, alive=alive, encoding=self.encoding).text


def _openings(messages: Sequence[RecalledMessage], gone: frozenset[int]) -> set[tuple[int, int, int]]:
    """Return the keys of openings that the model already sees, so that they are not inserted again."""
    openings = (opening for message in messages for opening in (message.question_opening, message.answer_opening))
    return {opening.passage.key for opening in openings if opening and opening.passage.message_id not in gone}
