"""The library by day and month, marking conversations one or many at a time, and the page of statistics.

`/library` answers with a page or, for htmx, with the next groups of rows. Its form posts the selection to
`/library/change`, which redirects back and offers an Undo. Without a trash, deleting asks for confirmation on a page of
its own.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import replace_url

from convmemory.accounts.pages import PageRequest, enter_archive_of, in_archive, signed_in
from convmemory.conversations import browsing, curating, projects, reading
from convmemory.conversations.browsing import LibraryChoice
from convmemory.conversations.exports.formats import export_response
from convmemory.conversations.exports.selection import ExportSelection
from convmemory.conversations.left_off import left_off
from convmemory.conversations.models import Conversation, project_name
from convmemory.conversations.project_folders import folders_of_project
from convmemory.conversations.project_folders import keep_apart as keep_folder_apart
from convmemory.conversations.statistics import MONTHS_SHOWN, RANGES, statistics_of
from convmemory.conversations.tasks import enqueue_count
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.numbers import number_or_refuse, parse_number

UNDO_OF = {
    "archive": "unarchive", "unarchive": "archive", "tag": "untag", "star": "unstar", "unstar": "star",
    "delete": "restore",
}  # fmt: skip
READING_ACTIONS = frozenset({"export", "move"})  # a page asks where to move
CHANGES: dict[str, Callable[..., list[int]]] = {
    "archive": partial(curating.archive_all, archived=True),
    "unarchive": partial(curating.archive_all, archived=False),
    "star": partial(curating.star_all, starred=True),
    "unstar": partial(curating.star_all, starred=False),
    "tag": curating.add_tag,
    "untag": curating.remove_tag,
    "delete": curating.delete_all,
    "restore": curating.restore_all,
}
"""Each returns the ids of the conversations that it changed."""
DONE = {
    "archive": ngettext_lazy("%(count)s conversation archived", "%(count)s conversations archived", "count"),
    "unarchive": ngettext_lazy(
        "%(count)s conversation back in lists and search", "%(count)s conversations back in lists and search", "count"
    ),
    "tag": ngettext_lazy("%(count)s conversation tagged", "%(count)s conversations tagged", "count"),
    "untag": ngettext_lazy(
        "%(count)s conversation no longer tagged", "%(count)s conversations no longer tagged", "count"
    ),
    "star": ngettext_lazy("%(count)s conversation starred", "%(count)s conversations starred", "count"),
    "unstar": ngettext_lazy(
        "%(count)s conversation no longer starred", "%(count)s conversations no longer starred", "count"
    ),
    "delete": ngettext_lazy("%(count)s conversation in the trash", "%(count)s conversations in the trash", "count"),
}


ORDER_NAMES = {
    "": gettext_lazy("Newest first"),
    "oldest": gettext_lazy("Oldest first"),
    "title": gettext_lazy("By title"),
    "turns": gettext_lazy("Most turns first"),
}


@require_safe
@in_archive
def library(request: PageRequest) -> HttpResponse:
    """Render the conversations selected by the address."""
    choice, cursor = _choice(request.GET), request.GET.get("cursor", "")
    rows = parse_number(request.GET.get("rows", "")) or 0
    count = browsing.PAGE_ROWS if cursor else min(max(rows, browsing.PAGE_ROWS), browsing.MAX_ROWS)
    shelves, following = browsing.page_of_shelves(caller=request.caller, choice=choice, cursor=cursor, count=count)
    keep = urlencode({name: value for name, value in asdict(choice).items() if value}).replace("True", "1")
    context: dict[str, Any] = {
        "shelves": shelves,
        "next_cursor": following,
        "more_url": f"{reverse('library')}?{keep}&cursor={following}".replace("?&", "?"),
        "choice": choice,
        "keep": keep,
        "last_shelf": request.GET.get("shelf", ""),
        "rows": (rows if cursor else 0) + count,
    }
    if request.htmx and cursor:
        response = render(request, "conversations/library.html#more", context)
        return replace_url(response, f"{reverse('library')}?{urlencode({'rows': context['rows']})}&{keep}".rstrip("&"))
    folders = folders_of_project(caller=request.caller, project=choice.project) if choice.project else []
    context |= {
        "total": browsing.matching(caller=request.caller, choice=choice, limit=0)[1] if following else 0,
        "orders": ORDER_NAMES,
        "kept": [(name, value) for name, value in parse_qsl(keep) if name not in ("title", "sort")],
        "folders": browsing.project_tree(caller=request.caller),
        "agents": browsing.agent_counts(caller=request.caller),
        "tags": curating.tag_counts(caller=request.caller),
        "undo": _undo(request),
        "project_name": project_name(choice.project),
        "project_folders": folders,
        "left_off": left_off(caller=request.caller, project=choice.project) if choice.project else None,
        "worktrees_of": next((each.main for each in folders if each.is_worktree and not each.apart), ""),
        "others": [name for name, _ in projects.projects_of(caller=request.caller)] if choice.project else [],
    }
    return render(request, "conversations/library.html", context)


def _choice(query: QueryDict) -> LibraryChoice:
    plain = {name: query.get(name, "").strip()[:300] for name in ("agent", "project", "tag", "model", "tool", "title")}
    sort = query.get("sort", "") if query.get("sort", "") in browsing.ORDERS else ""
    return LibraryChoice(starred=query.get("starred") == "1", archived=query.get("archived") == "1", sort=sort, **plain)


@require_POST
@signed_in
def change(request: PageRequest) -> HttpResponseBase:
    """Apply one action to the chosen conversations, or download them as a file. Raises: InvalidInput, NotAllowed."""
    enter_archive_of(request, {}, reads=request.POST.get("action", "") in READING_ACTIONS)
    # Numbers, given separately or separated by commas.
    words = {word for text in request.POST.getlist("chosen") for word in text.split(",") if word}
    numbers = {number_or_refuse(word, "What was chosen are no numbers of conversations.") for word in words}
    chosen, action = sorted(number for number in numbers if number is not None), request.POST.get("action", "")
    back = came_from(request) or reverse("library")
    if request.POST.get("matching") == "1":
        choice = _choice(QueryDict(request.POST.get("choice", "")))
        chosen, count = browsing.matching(caller=request.caller, choice=choice, limit=curating.MAX_CHOSEN)
        if count > len(chosen):
            note = _("These are the first %(done)s of %(all)s; choose all again for the others.")
            messages.warning(request, note % {"done": len(chosen), "all": count})
    if not chosen:
        messages.warning(request, _("Nothing was chosen: tick the conversations first."))
        return redirect(back)
    if action == "delete" and not config.trash_days:
        if request.POST.get("confirmed") != "1":
            rows = Conversation.objects.filter(archive_id=request.caller.archive_id, pk__in=chosen).order_by(
                "-updated_at"
            )
            context = {"rows": rows, "back": back}
            return render(request, "conversations/delete_many.html", context)
        count = len(curating.delete_all(caller=request.caller, conversation_ids=chosen))
        note = ngettext("%(count)s conversation is deleted.", "%(count)s conversations are deleted.", count)
        messages.success(request, note % {"count": count})
        return redirect(back)
    if action == "export":
        of_caller = curating.own_conversations(caller=request.caller, conversation_ids=chosen)
        selection = ExportSelection(ids=tuple(of_caller) or tuple(chosen[:1]))
        format = request.POST.get("format", "markdown")
        return export_response(caller=request.caller, selection=selection, format=format)
    if action == "move":
        return redirect(f"{reverse('move')}?{urlencode({'conversation': chosen}, doseq=True)}")
    name = request.POST.get("tag", "")
    if action not in CHANGES:
        raise InvalidInput(f"There is nothing called {action[:40]!r} to do.")
    changed = CHANGES[action](
        caller=request.caller, conversation_ids=chosen, **({"name": name} if "tag" in action else {})
    )
    if request.POST.get("undoes"):
        messages.success(request, _("Undone."))
        return redirect(back)
    done = {"done": action, "chosen": ",".join(map(str, changed)), "name": curating.clean_tag(name)}
    return redirect(
        f"{back}{'&' if '?' in back else '?'}{urlencode({key: text for key, text in done.items() if text})}"
    )


@require_POST
@in_archive
def keep_apart(request: PageRequest) -> HttpResponse:
    """Keep a folder, or each worktree of it, apart from its repository, or join it again."""
    folder, is_apart = request.POST.get("folder", ""), request.POST.get("apart") == "1"
    try:
        keep_folder_apart(
            caller=request.caller,
            folder=folder,
            each_worktree=request.POST.get("each_worktree") == "1",
            is_apart=is_apart,
        )
    except InvalidInput as error:
        messages.error(request, str(error))
    else:
        messages.success(request, _("Kept apart.") if is_apart else _("Joined again."))
    return redirect(f"{reverse('library')}?{urlencode({'project': request.POST.get('project', '') or folder})}")


@require_POST
@in_archive
def rename_project(request: PageRequest) -> HttpResponse:
    """Rename `project` to `name`, or merge it with the project of that name; `undo` takes a renaming back."""
    if (number := parse_number(request.POST.get("undo", ""))) is not None:
        renamed = projects.undo_rename(caller=request.caller, rename_id=number)
        messages.success(request, _("Undone."))
        return redirect(f"{reverse('library')}?{urlencode({'project': renamed.old})}")
    project, name = request.POST.get("project", ""), request.POST.get("name", "")
    try:
        renamed = projects.rename_project(caller=request.caller, project=project, name=name)
    except (InvalidInput, NotFound) as error:
        messages.error(request, str(error))
        return redirect(f"{reverse('library')}?{urlencode({'project': project})}")
    return redirect(f"{reverse('library')}?{urlencode({'project': renamed.new, 'renamed': renamed.pk})}")


def _undo(request: PageRequest) -> dict[str, Any] | None:
    """Return the last action, according to the address, and the action that reverts it."""
    renamed = projects.renaming_of(caller=request.caller, rename_id=parse_number(request.GET.get("renamed", "")) or 0)
    if renamed is not None:
        sentence = (
            _("“%(old)s” is part of “%(new)s” now.") if renamed.merged else _("“%(old)s” is called “%(new)s” now.")
        )
        names = {"old": project_name(renamed.old), "new": project_name(renamed.new)}
        return {"said": sentence % names, "renamed": renamed.pk}
    action, chosen = request.GET.get("done", ""), request.GET.get("chosen", "")
    if action not in DONE or None in map(parse_number, filter(None, chosen.split(","))):
        return None
    count = len([word for word in chosen.split(",") if word])
    name = curating.clean_tag(request.GET.get("name", ""))
    return {
        "said": f"{DONE[action] % {'count': count}}{f' #{name}' if name else ''}.",
        "action": UNDO_OF.get(action, "") if count else "",
        "chosen": chosen,
        "name": name,
    }


@require_POST
@in_archive
def star(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Star the conversation (`starred=1`), or remove its star (`starred=0`)."""
    starred = request.POST.get("starred", "1") == "1"
    curating.set_star(caller=request.caller, conversation_id=conversation_id, starred=starred)
    return _answer(request, conversation_id, "conversations/star.html")


@require_POST
@in_archive
def pin(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Pin the conversation to the top of the library (`pinned=1`), or unpin it (`pinned=0`)."""
    pinned = request.POST.get("pinned", "1") == "1"
    curating.set_pin(caller=request.caller, conversation_id=conversation_id, pinned=pinned)
    return _answer(request, conversation_id, "conversations/pin.html")


@require_POST
@in_archive
def change_tags(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Add a tag to the conversation (`add`), or remove one (`remove`)."""
    chosen = [reading.get_conversation(caller=request.caller, conversation_id=conversation_id).pk]
    if name := request.POST.get("remove", ""):
        curating.remove_tag(caller=request.caller, conversation_ids=chosen, name=name)
    else:
        curating.add_tag(caller=request.caller, conversation_ids=chosen, name=request.POST.get("add", ""))
    return _answer(request, conversation_id, "conversations/tags.html")


def _answer(request: PageRequest, conversation_id: int, template: str) -> HttpResponse:
    if not request.htmx:
        return redirect(came_from(request) or f"/conversations/{conversation_id}")
    row = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    tags = curating.tags_of(caller=request.caller, conversation_ids=[row.pk]).get(row.pk, [])
    return render(request, template, {"conversation": row, "tags": tags})


def came_from(request: PageRequest) -> str:
    """Return the address in `next` if it belongs to this site; else nothing."""
    address = request.POST.get("next", "")
    is_ours = address.startswith("/") and url_has_allowed_host_and_scheme(address, allowed_hosts=None)
    return address if is_ours else ""


@require_safe
@in_archive
def statistics(request: PageRequest) -> HttpResponse:
    """Render the page, or for htmx its figures alone, which reload themselves until everything is counted."""
    asked = parse_number(request.GET.get("months", ""))
    figures = statistics_of(caller=request.caller, months=asked if asked in RANGES else MONTHS_SHOWN)
    if figures.uncounted:
        enqueue_count(request.caller.archive_id)
    context = {"statistics": figures, "ranges": RANGES}
    is_part = request.htmx and request.htmx.target != "main"
    template = "conversations/statistics.html#figures" if is_part else "conversations/statistics.html"
    return render(request, template, context)
