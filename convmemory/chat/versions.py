"""Finds the versions of questions that were edited or asked again, and chooses the one that a thread continues.

`Reply.follows` tells versions of one question: they follow the same message. It is stored when a thread is first left,
because until then the order of the messages tells it. A question's stretch is the question with the messages up to the
next one.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import BigIntegerField, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce

from convmemory.accounts.callers import Caller
from convmemory.chat.models import Reply
from convmemory.conversations.messages.ingest import replace_end
from convmemory.conversations.messages.responses import lock_conversation
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.pages.rendering import Versions
from convmemory.core.errors import NotFound


@dataclass(frozen=True, slots=True)
class Threads:
    """The questions of a conversation by position, and what those that were asked here follow."""

    conversation: Conversation
    positions: Sequence[int]
    questions: Sequence[int]
    live: frozenset[int]
    follows: dict[int, int]
    """The position of the message that a question follows, by the question's id; -1 at the beginning."""
    siblings: dict[int, list[int]]
    """The ids of questions that follow the same message, by its position, the oldest first."""

    def question_at(self, position: int) -> int | None:
        """Return the question in whose stretch the position is; None before the first one."""
        index = bisect_right(self.positions, position)
        return self.questions[index - 1] if index else None

    def can_be_reached(self, question: int | None) -> bool:
        """Return whether the page leads to the question: it is in the thread, or a version of one that is reached."""
        while question is not None and question not in self.live:
            if question not in self.follows:
                return False
            question = self.question_at(self.follows[question])
        return True

    def versions(self) -> dict[int, Versions]:
        """Return the versions of the questions in the thread that have several."""
        versions = {}
        for ids in self.siblings.values():
            for index, question in enumerate(ids):
                if question in self.live and len(ids) > 1:
                    before, after = ([None, *ids, None][index + offset] for offset in (0, 2))
                    versions[question] = Versions(index + 1, len(ids), before, after)
        return versions

    def left_out(self, messages: Sequence[Message]) -> set[int]:
        """Return the superseded messages to which a version leads."""
        gone = (message for message in messages if message.superseded)
        asked = ((message, self.question_at(message.position)) for message in gone)
        return {message.pk for message, question in asked if question is not None and self.can_be_reached(question)}


def threads_of(conversation: Conversation) -> Threads | None:
    """Return the threads of a conversation; None if no question has a second version. One to three queries."""
    replies = Reply.objects.filter(
        archive_id=conversation.archive_id, conversation=conversation, question__isnull=False
    )
    orders: dict[Any, Any] = dict(replies.exclude(follows=None).order_by("pk").values_list("question_id", "follows"))
    if len(set(orders.values())) == len(orders):
        return None
    asked = list(
        conversation.messages.filter(is_real_user=True).order_by("position").values_list("pk", "position", "superseded")
    )
    places = dict(conversation.messages.filter(pk__in=set(orders.values())).values_list("pk", "position"))
    follows = {
        question: places.get(before, -1) for question, before in orders.items() if before in places or not before
    }
    siblings: dict[int, list[int]] = defaultdict(list)
    for question, position in follows.items():
        siblings[position].append(question)
    return Threads(
        conversation,
        positions=[position for _, position, _ in asked],
        questions=[pk for pk, _, _ in asked],
        live=frozenset(pk for pk, _, is_gone in asked if not is_gone),
        follows=follows,
        siblings=siblings,
    )


def note_order(*, caller: Caller, conversation_id: int) -> None:
    """Store what each question in the thread follows, before the thread is left."""
    of_conversation = Message.objects.filter(archive_id=caller.archive_id, conversation_id=conversation_id)
    position = of_conversation.filter(pk=OuterRef(OuterRef("question_id"))).values("position")[:1]
    before = (
        of_conversation.filter(superseded=False, position__lt=Subquery(position)).order_by("-position").values("pk")[:1]
    )
    Reply.objects.filter(
        archive_id=caller.archive_id,
        conversation_id=conversation_id,
        follows=None,
        question__in=of_conversation.filter(superseded=False).values("pk"),
    ).update(follows=Coalesce(Subquery(before, output_field=BigIntegerField()), Value(0)))


def follows(*, caller: Caller, message_id: int) -> int | None:
    """Return the id of the message that the question follows, 0 at the beginning; None if it is not known."""
    asked = Reply.objects.filter(archive_id=caller.archive_id, question_id=message_id)
    return asked.values_list("follows", flat=True).first()


def choose_version(*, caller: Caller, conversation_id: int, message_id: int) -> None:
    """Let the thread go on from this version of a question, with the newest of what followed it.

    Raises: NotFound, ConversationBusy while a reply is being written.
    """
    with transaction.atomic():
        conversation = lock_conversation(caller=caller, conversation_id=conversation_id)
        note_order(caller=caller, conversation_id=conversation_id)
        threads = threads_of(conversation)
        start = threads.follows.get(message_id) if threads else None
        before = threads.question_at(start) if threads and start is not None else None
        if threads is None or start is None or (before is not None and before not in threads.live):
            raise NotFound(f"Conversation {conversation_id} has no version {message_id} of a question.")
        later = [(q, threads.question_at(position)) for q, position in threads.follows.items()]
        chosen, last = [message_id], message_id
        while newest := max((q for q, parent in later if parent == last), default=0):
            chosen.append(last := newest)
        places = conversation.messages.filter(position__gt=start).values_list("pk", "position")
        kept = [pk for pk, position in places if threads.question_at(position) in chosen]
        replace_end(conversation, after=start, by=kept)
