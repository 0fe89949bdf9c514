"""The final step of every change to a conversation's messages: numbers turns, stores their outcomes, counts, announces.

Works on a locked conversation inside a transaction, and sends `conversation_changed` in it.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from django.db import connection, transaction
from django.db.models import Max, Min
from django.utils import timezone

from convmemory.conversations.messages.edits import edits_in, path_in_project
from convmemory.conversations.messages.outcomes import Spoken, first_commit, outcome_of
from convmemory.conversations.messages.parts import part_from_json, unpack_lines
from convmemory.conversations.messages.titling import Work, choose_title
from convmemory.conversations.messages.turns import TurnMessage, number_turns
from convmemory.conversations.messages.usage import Usage, usage_in_lines
from convmemory.conversations.models import (
    HAS_OLD_OUTCOMES,
    OUTCOME_VERSION,
    Conversation,
    Figures,
    Message,
    MessageSource,
)
from convmemory.conversations.signals import conversation_changed
from convmemory.core.sql import load_sql
from convmemory.core.text import json_storable

if TYPE_CHECKING:
    from convmemory.conversations.messages.parts import Role

MESSAGES_AT_ONCE = 200


def finish_change(
    conversation: Conversation,
    *,
    from_position: int,
    message_count: int,
    turn_count: int | None = None,
    newest: datetime | None = None,
) -> None:
    """Complete a change of the messages from a position on: renumber turns, update counts and dates, announce it."""
    first_turn = count_turns(
        conversation, from_position=from_position, message_count=message_count, turn_count=turn_count, newest=newest
    )
    announce(conversation, first_turn=first_turn)


def count_turns(
    conversation: Conversation,
    *,
    from_position: int,
    message_count: int,
    turn_count: int | None = None,
    newest: datetime | None = None,
) -> int:
    """Renumber turns, update counts and dates; returns the first turn that may have changed. Announces nothing.

    With `turn_count` all messages have their numbers already, `newest` is the latest date of them, and none is read.
    """
    first_turn = 0
    if turn_count is None:
        first_turn = renumber(conversation, from_position=from_position)
        newest = conversation.messages.filter(position__gte=from_position).aggregate(at=Max("created_at"))["at"]
    else:
        conversation.turn_count = turn_count
    work = write_outcomes(conversation, from_turn=first_turn)
    conversation.message_count = message_count
    conversation.turns_version += 1
    if conversation.turns_version > 1:  # the conversation has grown
        conversation.updated_at = max(newest, conversation.updated_at) if newest is not None else timezone.now()
    elif newest is not None:
        conversation.updated_at = newest
    choose_title(conversation, work, has_begun=not first_turn)
    conversation.save(
        update_fields=["message_count", "turn_count", "turns_version", "updated_at", "title", "title_version"]
    )
    return first_turn


def announce_rewritten(conversation: Conversation, *, from_position: int | None) -> None:
    """Announce that message texts from a position on have changed (None: no texts); dates stay unchanged."""
    if from_position is None:
        announce(conversation)
        return
    last_active = conversation.updated_at
    finish_change(conversation, from_position=from_position, message_count=conversation.message_count)
    of_conversation = Figures.objects.filter(archive_id=conversation.archive_id, conversation_id=conversation.pk)
    of_conversation.update(points=None)  # they quote texts
    Conversation.objects.filter(pk=conversation.pk, archive_id=conversation.archive_id).update(updated_at=last_active)


def announce(conversation: Conversation, *, first_turn: int | None = None) -> None:
    """Notify receivers, inside the transaction, that the conversation, or its turns from one on, have changed."""
    conversation_changed.send(Conversation, conversation=conversation, first_turn=first_turn)


def write_outcomes(conversation: Conversation, *, from_turn: int = 0) -> Work:
    """Store the outcomes of a conversation's turns, from one on, with the messages that open them; and edits.

    Returns what the turns did, of which a title can be made.
    """
    rows = conversation.messages.filter(superseded=False, turn_number__gte=from_turn).order_by("position")
    needed = rows.values_list("turn_number", "pk", "is_real_user", "role", "parts", "created_at")
    outcomes = []
    edits: list[dict[str, Any]] = []
    commit = ""
    for number, turn in groupby(needed.iterator(chunk_size=MESSAGES_AT_ONCE), key=itemgetter(0)):
        openings: list[tuple[bool, int, int]] = []
        messages: dict[int, Spoken] = {}
        dates: dict[int, datetime | None] = {}
        for _, pk, is_real_user, role, parts, created_at in turn:
            openings.append((not is_real_user, len(openings), pk))
            messages[pk] = Spoken(role, tuple(map(part_from_json, parts)))
            dates[pk] = created_at
        *_, opening = min(openings)
        outcomes.append({"message": opening, "outcome": outcome_of(messages.values()).to_json()})
        commit = commit or first_commit(messages.values())
        for message, part, edit in edits_in((pk, spoken.parts) for pk, spoken in messages.items()):
            path = path_in_project(edit.path, conversation.worktree, conversation.project)
            at = dates[message] or conversation.updated_at
            row = {"message": message, "part": part, "turn": number, "path": path, "created_at": at.isoformat()}
            edits.append(row | {"name": path.rpartition("/")[2]})
    for start in range(0, max(len(outcomes), 1), MESSAGES_AT_ONCE):
        batch = outcomes[start : start + MESSAGES_AT_ONCE]
        parameters = {
            "owner": conversation.archive_id,
            "conversation": conversation.pk,
            "from_turn": None if start else from_turn,
            "edits": json.dumps(json_storable([] if start else edits)),
            "outcomes": json.dumps(json_storable(batch)),
        }
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.conversations", "set_outcomes"), parameters)
    return Work(commit, tuple(dict.fromkeys(edit["name"] for edit in edits)))


def set_usages(conversation: Conversation, usages: Mapping[int, Usage]) -> None:
    """Store the usages of messages, by their ids, and have the statistics of the conversation counted again."""
    if not usages:
        return
    rows = [{"message": pk, "usage": usage.to_json()} for pk, usage in usages.items()]
    home: dict[str, Any] = {"owner": conversation.archive_id, "conversation": conversation.pk}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "set_usages"), home | {"usages": json.dumps(rows)})


def _usages_of_sources(conversation: Conversation) -> dict[int, Usage]:
    """Return the usages that the source lines of a conversation's answers report, by the ids of the messages."""
    sources = MessageSource.objects.filter(
        archive_id=conversation.archive_id,
        message__archive_id=conversation.archive_id,
        message__conversation_id=conversation.pk,
        message__role=Message.Role.ASSISTANT,
        message__usage__isnull=True,
    )
    rows = sources.values_list("message_id", "data").iterator(chunk_size=MESSAGES_AT_ONCE)
    reported = ((pk, usage_in_lines(unpack_lines(bytes(data)) or b"")) for pk, data in rows)
    return {pk: usage for pk, usage in reported if usage}


def renew_outcomes(*, limit: int) -> int:
    """Make outcomes, edits, titles and usages of conversations that an older version stored.

    Returns how many were looked at.
    """
    old = Conversation.objects.filter(HAS_OLD_OUTCOMES).order_by("pk")
    ids = list(old.values_list("pk", flat=True)[:limit])
    for number in ids:
        with transaction.atomic():
            conversation = old.select_for_update().filter(pk=number).first()
            if conversation is not None:
                before = conversation.title
                choose_title(conversation, write_outcomes(conversation), has_begun=True)
                set_usages(conversation, _usages_of_sources(conversation))
                conversation.outcome_version = OUTCOME_VERSION
                conversation.save(update_fields=["outcome_version", "title", "title_version"])
                if conversation.title != before:
                    announce(conversation)
    return len(ids)


def renumber(conversation: Conversation, *, from_position: int) -> int:
    """Renumber turns from the first one that a change at `from_position` can affect.

    Reads only the messages from there on, writes only numbers that differ, and sets `conversation.turn_count` without
    saving it. Returns the first turn that can have changed.
    """
    first_turn = start = 0
    if from_position:
        before = conversation.messages.filter(position__lt=from_position)
        first_turn = before.aggregate(last=Max("turn_number"))["last"] or 0
        start = before.filter(turn_number=first_turn).aggregate(at=Min("position"))["at"] or 0
    rows = list(
        conversation.messages.filter(position__gte=start)
        .order_by("position")
        .values_list("pk", "role", "is_real_user", "superseded", "turn_number")
    )
    messages = (TurnMessage(cast("Role", role), real, gone) for _, role, real, gone, _ in rows)
    numbers = number_turns(messages, first_number=first_turn)
    # Most numbers stay the same, and every written row costs space until a vacuum.
    changed = [(pk, new) for (pk, *_, old), new in zip(rows, numbers, strict=True) if old != new]
    if changed:
        ids, values = zip(*changed, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(
                load_sql("convmemory.conversations", "set_turn_numbers"),
                {
                    "owner": conversation.archive_id,
                    "conversation": conversation.pk,
                    "messages": list(ids),
                    "turns": list(values),
                },
            )
    last = max((number for number in numbers if number is not None), default=first_turn - 1)
    conversation.turn_count = last + 1
    return first_turn
