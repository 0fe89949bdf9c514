"""Pages of one conversation, its event log, and downloads of its messages.

`/conversations/{id}` answers a whole page, the main area alone (htmx, after a click on a result) or more messages
(htmx, while scrolling), all at the same address. Everything works with plain links and forms.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode
from zlib import crc32

from django.contrib import messages
from django.db import connection
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive, make_aware
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from convmemory.accounts.pages import PageRequest, in_archive
from convmemory.conversations import reading
from convmemory.conversations.filters import EVERYTHING
from convmemory.conversations.marking import set_mark
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.hidden_keys import keys_of, reveal_key
from convmemory.conversations.messages.outcomes import NO_OUTCOME
from convmemory.conversations.messages.parts import ToolCallPart, spoken_text
from convmemory.conversations.messages.titling import asked_title
from convmemory.conversations.models import Conversation
from convmemory.conversations.pages.highlighting import MarkedPassage, MarkedSpan
from convmemory.conversations.pages.part_views import view_part
from convmemory.conversations.pages.pictures import picture_of
from convmemory.conversations.pages.rendering import Note, Versions, fold_steps, view_messages
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.conversations.pages.windows import Window, skip_work, window_after, window_around, window_before
from convmemory.conversations.signals import PageAddition, conversation_shown
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.marks import Mark, mark_of
from convmemory.core.numbers import MAX_BIGINT, MAX_INTEGER, number_or_refuse, parse_number
from convmemory.core.sql import load_sql

LIST_LIMIT = 30
CHILDREN_SHOWN = 50
DISPLAYS = {"": _("Everything"), "questions": _("Questions and outcomes")}


@require_safe
@in_archive
def conversation(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Render the conversation around `?turn=N`, before or after a position, or from its start."""
    row = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    box = SearchBox.of(request)
    turn = whole_number(request, "turn")
    passage = passage_of(request)
    # The window of the address, and the side on which it continues another one: "before", "after" or "". A search for
    # a time has `before` and `after` in its addresses.
    before, after = (whole_number(request, name) for name in ("earlier", "later"))
    display = request.GET.get("show", "") if request.GET.get("show", "") in DISPLAYS else ""
    if display == "questions":
        before = before and skip_work(row, before, "before")
        after = after and skip_work(row, after, "after")
    if before is not None:
        window, continues = window_before(row, before), "before"
    elif after is not None:
        window, continues = window_after(row, after), "after"
    else:
        window, continues = window_around(row, turn, passage.message_id if passage else None), ""
    added = _additions(request, row, window, is_whole=not (request.htmx and continues))
    facts = _facts(row)
    views = view_messages(
        (message for message in window.messages if message.pk not in added.left_out),
        turn_before=window.turn_before,
        target=turn,
        passage=passage,
        notes=added.notes,
        versions=added.versions,
        marks=facts.marks,
        outcomes=window.outcomes,
    )
    # The blocks that the display switch shows.
    blocks = fold_steps(views)
    if display == "questions":
        blocks = [
            block
            if block.view.kind == "user"
            else replace(block, run=None, view=replace(block.view, parts=(), notes=(), headed=False))
            for block in blocks
            if block.view.kind == "user" or block.outcome != NO_OUTCOME
        ]
    kept = box.parameters | ({"show": display} if display else {})
    context = {
        **added.values,
        "conversation": row,
        "message_count": _messages_shown(row),
        "window": window,
        "blocks": blocks,
        "turn": turn,
        "passage": passage,
        "box": box,
        "keep": box.query_string,
        # htmx keeps the panel by its id, as a selector: the query itself could not stand in it.
        "outline_id": f"outline-{row.pk}-{crc32(box.query_string.encode()):x}",
        "earlier_url": _address(row, {"earlier": window.earlier, "turn": turn} | kept),
        "later_url": _address(row, {"later": window.later, "turn": turn} | kept),
        "display": display,
        "undo_mark": _undo_mark(request),
    }
    if request.htmx and continues:
        context["continues"] = continues
        return render(request, "conversations/conversation.html#messages", context)
    context |= _head(request, row, window.target, kept)
    context |= {"asked_title": asked_title(row), "hidden_keys": facts.hidden_keys, "tags": facts.tags}
    has_no_turns = turn == 0 and not row.turn_count  # search gives such conversations turn 0
    is_shown = turn is None or window.target is not None or bool(continues) or has_no_turns
    context["missing_turn"] = "" if turn is None or is_shown else missing_turn(turn, row.turn_count)
    if request.htmx:
        return render(request, "conversations/conversation.html#main", context)
    return render(request, "conversations/conversation.html", context | _recent(request, box))


def _messages_shown(row: Conversation) -> int:
    """Return the number of messages without those of other versions, which only a chat here makes."""
    if row.source != "chat":
        return row.message_count
    return row.messages.filter(superseded=False).count()


def missing_turn(turn: int, count: int) -> str:
    """Return the sentence for an address with a turn that a conversation of `count` turns does not have."""
    text = ngettext(
        "There is no turn %(number)s here: this conversation has %(count)s turn. Here is its beginning.",
        "There is no turn %(number)s here: this conversation has %(count)s turns. Here is its beginning.",
        count,
    )
    return text % {"number": turn + 1, "count": count}


def _additions(request: PageRequest, row: Conversation, window: Window, *, is_whole: bool) -> PageAddition:
    """Return the additions of all other apps to the page as one."""
    values: dict[str, Any] = {}
    notes: dict[int, tuple[Note, ...]] = {}
    versions: dict[int, Versions] = {}
    left_out: set[int] = set()
    answers: list[tuple[Any, Any]] = conversation_shown.send(
        Conversation, caller=request.caller, conversation=row, messages=window.messages, is_whole=is_whole
    )
    additions: list[PageAddition] = [addition for _, addition in answers]
    for addition in additions:
        values |= addition.values
        versions |= addition.versions
        left_out.update(addition.left_out)
        for message_id, more in addition.notes.items():
            notes[message_id] = (*notes.get(message_id, ()), *more)
    return PageAddition(values, notes, versions, left_out)


def passage_of(request: PageRequest) -> MarkedPassage | None:
    """The passage in the address: `m` is the message, `part` its part, `from` and `to` count characters."""
    message_id, index, span = whole_number(request, "m", MAX_BIGINT), whole_number(request, "part") or 0, _span(request)
    return MarkedPassage(message_id, index, span) if message_id is not None and span else None


def _span(request: PageRequest) -> MarkedSpan | None:
    start, end = whole_number(request, "from"), whole_number(request, "to")
    return MarkedSpan(start, end) if start is not None and end is not None and start < end else None


def whole_number(request: PageRequest, name: str, most: int = MAX_INTEGER) -> int | None:
    """A whole number from the address. Raises: InvalidInput."""
    text = request.GET.get(name, "")
    refusal = f"{name}={text[:40]!r} is not a number that a conversation has: use 0, 1, 2, …"
    return number_or_refuse(text, refusal, maximum=most)


def _address(row: Conversation, values: dict[str, Any]) -> str:
    """Return the conversation's address with these values, without those that are None."""
    query = urlencode({name: value for name, value in values.items() if value is not None}, doseq=True)
    return f"{row.get_absolute_url()}?{query}"


class _Facts(NamedTuple):
    tags: list[str]
    hidden_keys: int
    marks: dict[tuple[int, int], Mark]


def _facts(row: Conversation) -> _Facts:
    """Return the tags, the number of hidden keys and the marks of the conversation. One query."""
    parameters = {"owner": row.archive_id, "conversation": row.pk}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "facts_of_conversation"), parameters)
        tags, hidden_keys, marks = cursor.fetchone()
    marked = {(row.pk, turn): Mark(kind, note) for turn, kind, note in json.loads(marks)}
    return _Facts(tags, hidden_keys, marked)


def _head(request: PageRequest, row: Conversation, turn: int | None, kept: dict[str, Any]) -> dict[str, Any]:
    """Return the values above the messages: relatives, and the addresses of the turns before and after the target.

    `kept` are the values of all addresses of the page.
    """
    before = turn - 1 if turn else None
    after = turn + 1 if turn is not None and turn + 1 < row.turn_count else None
    of_caller = Conversation.objects.filter(archive_id=request.caller.archive_id)
    of_row = Q(parent_id=row.pk) | Q(pk=row.parent_id) if row.parent_id else Q(parent_id=row.pk)
    in_order = of_caller.filter(of_row).order_by(
        ExpressionWrapper(Q(parent_id=row.pk), BooleanField()), "created_at", "pk"
    )  # the parent first
    relatives = list(in_order[: CHILDREN_SHOWN + 2])
    parent = relatives.pop(0) if relatives and relatives[0].pk == row.parent_id else None
    return {
        "parent": parent,
        "children": relatives[:CHILDREN_SHOWN],
        "more_children": len(relatives) > CHILDREN_SHOWN,
        "displays": [
            (value, name, _address(row, {"turn": turn} | kept | {"show": value})) for value, name in DISPLAYS.items()
        ],
        "previous_url": "" if before is None else _address(row, {"turn": before} | kept) + f"#turn-{before}",
        "next_url": "" if after is None else _address(row, {"turn": after} | kept) + f"#turn-{after}",
    }


def _recent(request: PageRequest, box: SearchBox) -> dict[str, Any]:
    """Return the first page of the sidebar's list; nothing with a query, whose results are loaded there instead."""
    if box.parameters:
        return {}
    rows, cursor = reading.page_of_conversations(caller=request.caller, filters=EVERYTHING, limit=LIST_LIMIT)
    return {"rows": rows, "next_cursor": cursor}


@require_safe
@in_archive
def part(request: PageRequest, conversation_id: int, position: int, index: int) -> HttpResponse:
    """Render one part of a message in full, for parts that the conversation page cuts."""
    row = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    message = row.messages.filter(position=min(position, MAX_INTEGER)).first()
    parts = message.typed_parts if message else ()
    if message is None or index >= len(parts):
        raise NotFound(f"Conversation {conversation_id} has no such part.")
    tools = {part.id: part.name for part in parts if isinstance(part, ToolCallPart)}
    context = {
        "conversation": row,
        "message": message,
        "part": view_part(parts[index], index, tools=tools, whole=True, passage=_span(request)),
    }
    return render(request, "conversations/part.html#body" if request.htmx else "conversations/part.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@in_archive
def hidden_keys(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Render the keys that were hidden in the conversation; a POST with `key` shows that one."""
    row = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    context: dict[str, Any] = {"conversation": row}
    if request.method == "POST":
        chosen = parse_number(request.POST.get("key", ""))
        if chosen is None:
            raise InvalidInput("Choose the key to show.")
        context["revealed"] = chosen
        context["value"] = reveal_key(caller=request.caller, key_id=chosen)
    context["keys"] = keys_of(caller=request.caller, conversation_id=row.pk)
    return render(request, "conversations/hidden_keys.html", context)


@require_POST
@in_archive
def mark_turn(request: PageRequest, conversation_id: int, turn: int) -> HttpResponse:
    """Mark the turn as `kind` with a `note`, or take its mark off; the answer offers to undo that."""
    mark = mark_of(request.POST.get("kind", ""), request.POST.get("note", ""))
    before = set_mark(caller=request.caller, conversation_id=conversation_id, turn_number=turn, mark=mark)
    done: dict[str, int | str] = {"turn": turn}
    if request.POST.get("undoes"):
        messages.success(request, _("Undone."))
    elif before != mark:
        done |= {"marked": turn, "kind": before.kind if before else "", "note": before.note if before else ""}
    return redirect(f"/conversations/{conversation_id}?{urlencode(done)}#turn-{turn}")


def _undo_mark(request: PageRequest) -> dict[str, Any] | None:
    """Return the turn whose mark was changed, according to the address, and the mark that it had before."""
    turn = parse_number(request.GET.get("marked", ""))
    if turn is None:
        return None
    return {"turn": turn, "kind": request.GET.get("kind", ""), "note": request.GET.get("note", "")}


@require_POST
@in_archive
def rename(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Give the conversation another title."""
    title = request.POST.get("title", "").strip()
    if not title:
        raise InvalidInput("A conversation's title cannot be empty: write at least one character.")
    changed = _change(request, conversation_id, {"title": title})
    return redirect(changed)


@require_POST
@in_archive
def archive(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Hide the conversation from lists and search (`archived=1`), or show it again (`archived=0`)."""
    archived = request.POST.get("archived", "1") == "1"
    changed = _change(request, conversation_id, {"archived_at": timezone.now() if archived else None})
    messages.success(
        request, _("Archived: search and lists leave it out.") if archived else _("Back in search and lists.")
    )
    return redirect(changed)


def _change(request: PageRequest, conversation_id: int, values: Mapping[str, Any]) -> Conversation:
    return ingest.change_conversation(caller=request.caller, conversation_id=conversation_id, values=dict(values))


@require_http_methods(["GET", "HEAD", "POST"])
@in_archive
def delete(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Put the conversation into the trash; without one, ask for confirmation, then delete for good."""
    row = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    if request.method != "POST" or not (config.trash_days or request.POST.get("confirmed") == "1"):
        return render(request, "conversations/delete.html", {"conversation": row, "trash_days": config.trash_days})
    ingest.delete_conversation(caller=request.caller, conversation_id=conversation_id)
    title = row.title or _("Untitled conversation")
    if not config.trash_days:
        messages.success(request, _("“%(title)s” is deleted.") % {"title": title})
    elif request.caller.space != request.chosen:  # the library shows another archive, and cannot undo this
        values = {"title": title, "place": request.caller.archive.name}
        messages.success(request, _("“%(title)s” is in the trash of: %(place)s") % values)
    else:
        return redirect(f"{reverse('library')}?{urlencode({'done': 'delete', 'chosen': conversation_id})}")
    return redirect("home")


NOTHING_RUNS = "default-src 'none'; sandbox"


@require_safe
@in_archive
def text(request: PageRequest, conversation_id: int, position: int) -> HttpResponse:
    """Return the message's text as Markdown, which *Copy message* puts on the clipboard."""
    row = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    message = row.messages.filter(position=min(position, MAX_INTEGER)).first()
    if message is None:
        raise NotFound(f"Conversation {conversation_id} has no message {position}.")
    answer = HttpResponse(spoken_text(message.typed_parts), content_type="text/plain; charset=utf-8")
    return _harmless(answer)


@require_safe
@in_archive
def picture(request: PageRequest, conversation_id: int, position: int, index: int) -> HttpResponse:
    """Return a picture attached to the message, with the media type of its first bytes."""
    image = picture_of(
        caller=request.caller, conversation_id=conversation_id, position=min(position, MAX_INTEGER), index=index
    )
    answer = _harmless(HttpResponse(image.data, content_type=image.media_type))
    answer.headers["Cache-Control"] = "private, max-age=86400"
    return answer


def _harmless(answer: HttpResponse) -> HttpResponse:
    """Return the response with headers that keep the browser from running anything in it, whatever type it assumes."""
    answer.headers["Content-Security-Policy"] = NOTHING_RUNS
    answer.headers["X-Content-Type-Options"] = "nosniff"
    return answer


EVENTS_PER_PAGE = 100
TEXT_FIELDS = ("q", "type", "tool", "level", "after", "before")


@require_safe
@in_archive
def events(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Render the events of one conversation that pass the filters in the address, oldest first."""
    row = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    fields = {name: request.GET.get(name, "").strip() for name in TEXT_FIELDS}
    context: dict[str, Any] = {"conversation": row, "given": fields, "rows": [], "next": ""}
    if (event_id := whole_number(request, "similar", MAX_BIGINT)) is not None:
        similar = reading.similar_events(caller=request.caller, event_id=event_id, limit=EVENTS_PER_PAGE)
        context |= {"rows": similar, "similar": event_id, "is_filtered": True}
        return render(request, "conversations/events.html", context)
    try:
        turn, number = whole_number(request, "turn"), whole_number(request, "number")
        turn = number - 1 if number else turn  # the form counts from 1
        fields["number"] = "" if turn is None else str(turn + 1)
        rows = reading.search_events(
            caller=request.caller,
            conversation_id=row.pk,
            filters=reading.EventFilters(
                words=fields["q"],
                type=fields["type"],
                tool=fields["tool"],
                level=fields["level"],
                turn=turn,
                after=_moment("after", fields["after"]),
                before=_moment("before", fields["before"]),
            ),
            after_id=whole_number(request, "after_id", MAX_BIGINT) or 0,
            limit=EVENTS_PER_PAGE + 1,
        )
    except InvalidInput as error:
        return render(request, "conversations/events.html", context | {"wrong": str(error)}, status=422)
    shown = list(rows[:EVENTS_PER_PAGE])
    if len(rows) > len(shown):
        kept = {name: value for name, value in fields.items() if value}
        context["next"] = urlencode({**kept, "after_id": shown[-1].pk})
    context |= {"rows": shown, "is_filtered": any(fields.values())}
    return render(request, "conversations/events.html", context)


def _moment(name: str, text: str) -> datetime | None:
    """Return a time in the form of `<input type="datetime-local">`, read as UTC. Raises: InvalidInput."""
    if not text:
        return None
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise InvalidInput(f"{name}={text[:40]!r} is no time: write it as 2026-03-01T09:00.")
    return make_aware(moment) if is_naive(moment) else moment
