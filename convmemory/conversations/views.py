"""Pages of one conversation.

`/conversations/{id}` answers a whole page, the main area alone (htmx, after a click on a result) or more messages
(htmx, while scrolling), all at the same address. Everything works with plain links and forms.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.conversations import curating, ingest, reading
from convmemory.conversations.filters import EVERYTHING
from convmemory.conversations.hidden_keys import count_keys, keys_of, reveal_key
from convmemory.conversations.highlighting import MarkedSpan, Passage
from convmemory.conversations.models import Conversation
from convmemory.conversations.part_views import view_part
from convmemory.conversations.parts import ToolCallPart
from convmemory.conversations.reading import project_name
from convmemory.conversations.rendering import Note, view_messages
from convmemory.conversations.search_box import SearchBox
from convmemory.conversations.signals import PageAddition, conversation_shown
from convmemory.conversations.steps import Block, fold_steps
from convmemory.conversations.windows import Window, window_after, window_around, window_before
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.numbers import MAX_BIGINT, MAX_INTEGER, number_or_refuse, parse_number
from convmemory.core.replicas import may_use_replica

LIST_LIMIT = 30
CHILDREN_SHOWN = 50
DISPLAYS = {"": _("Everything"), "no-tools": _("No tools"), "questions": _("Questions only")}


# --- one conversation -----------------------------------------------------------------------------


@require_safe
@signed_in
@may_use_replica
def conversation(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Render the conversation around `?turn=N`, before or after a position, or from its start."""
    found = reading.get_conversation(owner=request.user, conversation_id=conversation_id)
    box = SearchBox.of(request)
    turn = whole_number(request, "turn")
    passage = passage_of(request)
    window, continues = _window_of(request, found, turn, passage)
    values, notes = _additions(request, found, window, is_whole=not (request.htmx and continues))
    views = view_messages(window.messages, turn_before=window.turn_before, target=turn, passage=passage, notes=notes)
    display = request.GET.get("show", "") if request.GET.get("show", "") in DISPLAYS else ""
    context = values | {
        "conversation": found,
        "window": window,
        "blocks": _displayed(fold_steps(views), display),
        "turn": turn,
        "passage": passage,
        "box": box,
        "keep": box.query_string,
        "keep_here": urlencode(box.parameters | ({"show": display} if display else {})),
        "display": display,
    }
    if request.htmx and continues:
        context["continues"] = continues
        return render(request, "conversations/conversation.html#messages", context)
    context |= _head(request, found, window.target)
    context["hidden_keys"] = count_keys(owner=request.user, conversation_id=found.pk)
    has_no_turns = turn == 0 and not found.turn_count  # search gives such conversations turn 0
    context["missing_turn"] = turn if window.target is None and not continues and not has_no_turns else None
    if request.htmx:
        return render(request, "conversations/conversation.html#main", context)
    return render(request, "conversations/conversation.html", context | _recent(request, box))


def _displayed(blocks: list[Block], display: str) -> list[Block]:
    """Return the blocks that the display switch shows."""
    if display == "questions":
        return [block for block in blocks if block.view.kind == "user"]
    if display == "no-tools":
        spoken = (replace(block, run=None) for block in blocks)
        return [block for block in spoken if block.view.parts and block.view.kind in ("user", "assistant")]
    return blocks


def _additions(
    request: PageRequest, found: Conversation, window: Window, *, is_whole: bool
) -> tuple[dict[str, Any], dict[int, tuple[Note, ...]]]:
    """Return the additions of other apps to the page: values for its template, and notes by message id."""
    values: dict[str, Any] = {}
    notes: dict[int, tuple[Note, ...]] = {}
    answers: list[tuple[Any, Any]] = conversation_shown.send(
        Conversation, owner=request.user, conversation=found, messages=window.messages, is_whole=is_whole
    )
    additions: list[PageAddition] = [addition for _, addition in answers]
    for addition in additions:
        values |= addition.values
        for message_id, more in addition.notes.items():
            notes[message_id] = (*notes.get(message_id, ()), *more)
    return values, notes


def _window_of(
    request: PageRequest, found: Conversation, turn: int | None, passage: Passage | None
) -> tuple[Window, str]:
    """Return the window of the address, and the side on which it continues another one: "before", "after" or ""."""
    before, after = (whole_number(request, name) for name in ("before", "after"))
    if before is not None:
        return window_before(found, before), "before"
    if after is not None:
        return window_after(found, after), "after"
    return window_around(found, turn, passage.message_id if passage else None), ""


def passage_of(request: PageRequest) -> Passage | None:
    """The passage in the address: `m` is the message, `part` its part, `from` and `to` count characters."""
    message_id, index, span = whole_number(request, "m", MAX_BIGINT), whole_number(request, "part") or 0, _span(request)
    return Passage(message_id, index, span) if message_id is not None and span else None


def _span(request: PageRequest) -> MarkedSpan | None:
    start, end = whole_number(request, "from"), whole_number(request, "to")
    return MarkedSpan(start, end) if start is not None and end is not None and start < end else None


def whole_number(request: PageRequest, name: str, most: int = MAX_INTEGER) -> int | None:
    """A whole number from the address. Raises: InvalidInput."""
    text = request.GET.get(name, "")
    refusal = f"{name}={text[:40]!r} is not a number that a conversation has: use 0, 1, 2, …"
    return number_or_refuse(text, refusal, maximum=most)


def _head(request: PageRequest, found: Conversation, turn: int | None) -> dict[str, Any]:
    """Return the values above the messages: relatives, and the turns before and after the target."""
    own = Conversation.objects.filter(owner_id=request.user.pk)
    relatives = {"parent": own.filter(pk=found.parent_id).first() if found.parent_id else None}
    children = list(own.filter(parent_id=found.pk).order_by("created_at", "pk")[: CHILDREN_SHOWN + 1])
    return relatives | {
        "children": children[:CHILDREN_SHOWN],
        "more_children": len(children) > CHILDREN_SHOWN,
        "project_name": project_name(found.project),
        "tags": curating.tags_of(owner=request.user, conversation_ids=[found.pk]).get(found.pk, []),
        "displays": DISPLAYS,
        "previous_turn": turn - 1 if turn else None,
        "next_turn": turn + 1 if turn is not None and turn + 1 < found.turn_count else None,
    }


def _recent(request: PageRequest, box: SearchBox) -> dict[str, Any]:
    """Return the first page of the sidebar's list; nothing with a query, whose results are loaded there instead."""
    if box.parameters:
        return {}
    rows, cursor = reading.page_of_conversations(owner=request.user, filters=EVERYTHING, limit=LIST_LIMIT)
    return {"rows": list_rows(rows), "next_cursor": cursor}


@dataclass(frozen=True, slots=True)
class ListRow:
    """A conversation in the sidebar."""

    conversation: Conversation
    project_name: str


def list_rows(rows: list[Conversation]) -> list[ListRow]:
    """Return the conversations as the sidebar lists them."""
    return [ListRow(row, project_name(row.project)) for row in rows]


@require_safe
@signed_in
def part(request: PageRequest, conversation_id: int, position: int, index: int) -> HttpResponse:
    """Render one part of a message in full, for parts that the conversation page cuts."""
    found = reading.get_conversation(owner=request.user, conversation_id=conversation_id)
    message = found.messages.filter(position=min(position, MAX_INTEGER)).first()
    parts = message.typed_parts if message else ()
    if message is None or index >= len(parts):
        raise NotFound(f"Conversation {conversation_id} has no such part.")
    tools = {part.id: part.name for part in parts if isinstance(part, ToolCallPart)}
    context = {
        "conversation": found,
        "message": message,
        "part": view_part(parts[index], index, tools=tools, whole=True, passage=_span(request)),
    }
    return render(request, "conversations/part.html#body" if request.htmx else "conversations/part.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@signed_in
def hidden_keys(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Render the keys that were hidden in the conversation; a POST with `key` shows that one."""
    found = reading.get_conversation(owner=request.user, conversation_id=conversation_id)
    context: dict[str, Any] = {"conversation": found}
    if request.method == "POST":
        chosen = parse_number(request.POST.get("key", ""))
        if chosen is None:
            raise InvalidInput("Choose the key to show.")
        context["revealed"] = chosen
        context["value"] = reveal_key(owner=request.user, key_id=chosen)
    context["keys"] = keys_of(owner=request.user, conversation_id=found.pk)
    return render(request, "conversations/hidden_keys.html", context)


# --- changing it ----------------------------------------------------------------------------------


@require_POST
@signed_in
def rename(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Give the conversation another title."""
    title = request.POST.get("title", "").strip()
    if not title:
        raise InvalidInput("A conversation's title cannot be empty: write at least one character.")
    changed = _change(request, conversation_id, {"title": title})
    return redirect(changed)


@require_POST
@signed_in
def archive(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Hide the conversation from lists and search (`archived=1`), or show it again (`archived=0`)."""
    archived = request.POST.get("archived", "1") == "1"
    changed = _change(request, conversation_id, {"archived_at": timezone.now() if archived else None})
    messages.success(
        request, _("Archived: search and lists leave it out.") if archived else _("Back in search and lists.")
    )
    return redirect(changed)


def _change(request: PageRequest, conversation_id: int, values: Mapping[str, Any]) -> Conversation:
    return ingest.change_conversation(owner=request.user, conversation_id=conversation_id, values=dict(values))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def delete(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Ask for confirmation, then delete for good."""
    found = reading.get_conversation(owner=request.user, conversation_id=conversation_id)
    if request.method != "POST":
        return render(request, "conversations/delete.html", {"conversation": found})
    ingest.delete_conversation(owner=request.user, conversation_id=conversation_id)
    messages.success(request, _("“%(title)s” is deleted.") % {"title": found.title or _("Untitled conversation")})
    return redirect("home")
