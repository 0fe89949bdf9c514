"""The filter chips under the search box: label, choices, and the number of conversations for each choice."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Case, Count, F, When
from django.http import QueryDict
from django.utils.dateparse import parse_date
from django.utils.formats import date_format
from django.utils.translation import gettext, pgettext
from django.utils.translation import gettext_lazy as _

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation, project_name
from convmemory.conversations.pages.search_box import SPOKEN, SearchBox
from convmemory.core.folding import folded
from search.ranking.time_names import name_of_range
from search.ranking.times.relative import DayRange

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

CHOICES_LIMIT = 500
MAX_DEPTH = 6  # folders of a project's name; of twins that differ further up, the whole path is shown
SCOPE_NAMES = {
    "user": _("what people wrote"),
    "assistant": _("what was answered"),
    "thinking": _("thinking"),
    "tool": _("what tools did"),
}
KIND_NAMES = {"turn": _("conversations"), "section": _("documents")}
ARCHIVE_NAMES = {"": "", "mine": _("Your own archive")}
MODE_NAMES = {"semantic": _("by meaning"), "full_text": _("by words")}


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip. `clear` is the URL query without its filter, `cleared` the form's fields for that."""

    name: str
    label: str
    is_on: bool
    clear: str
    cleared: str
    template: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A value for a chip; `count` is the number of conversations with it that pass the other chips."""

    value: str
    label: str
    count: int
    is_chosen: bool


CHOICES = ("agent", "project")
"""The filters that offer the values of the caller's conversations."""
Choices = Mapping[str, tuple[Choice, ...]]
"""The values that the chips offer, by the name of the filter."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A period to choose; `query` is the URL query with it, `values` the form's fields."""

    label: str
    query: str
    values: str


def chips_of(box: SearchBox) -> list[Chip]:
    """Return the chips in order; an active one shows its filter. A source and an archive are shown, and not offered."""
    places: dict[str, str | list[str]] = {"scope": list(SPOKEN), "kind": "", "archived": ""}
    kept = [name for name in SCOPE_NAMES if name in box.scope]
    scopes = [SCOPE_NAMES[name] for name in kept] if set(box.scope) != set(SPOKEN) else []
    where = [KIND_NAMES[box.kind]] if box.kind else []
    return [
        _chip(box, "agent", gettext("Program"), _names_label(box.agent), {"agent": []}),
        _chip(box, "project", gettext("Project"), _names_label(map(project_name, box.project)), {"project": []}),
        _chip(box, "time", gettext("Any time"), time_label(box), {"after": "", "before": ""}),
        _chip(
            box,
            "places",
            gettext("Look in"),
            _listed(*where, *scopes, *([gettext("archived")] if box.archived else [])),
            places,
        ),
        _chip(box, "source", gettext("Source"), _names_label(box.source), {"source": []}),
        _chip(
            box,
            "space",
            pgettext("a person's or a space's", "Archive"),
            str(ARCHIVE_NAMES.get(box.space, _("One space"))),
            {"space": ""},
        ),
        _chip(
            box,
            "order",
            gettext("Best first"),
            _listed(gettext("newest first") if box.sort else "", MODE_NAMES.get(box.mode, "")),
            {"sort": "", "mode": "hybrid"},
        ),
    ]


def filters_in(address: str) -> str:
    """Return the filters in the query string of a search, in one line, as its chips show them."""
    return ", ".join(chip.label for chip in chips_of(SearchBox.read(QueryDict(address))) if chip.is_on)


def _chip(box: SearchBox, name: str, usual: str, label: str, cleared: Mapping[str, str | list[str]]) -> Chip:
    return Chip(
        name=name,
        label=label or usual,
        is_on=bool(label),
        clear=box.without(*cleared),
        cleared=json.dumps(cleared),
        template=f"search/chip_{name}.html",
    )


def _names_label(names: Iterable[str]) -> str:
    """Return the first name, with the number of the others."""
    first, *others = tuple(names) or ("",)
    return f"{first} +{len(others)}" if others else first


def _listed(*words: "StrOrPromise") -> str:
    """Join the words with commas and capitalise the first; the others stay as they are written."""
    row = ", ".join(str(word) for word in words if word)
    return row[:1].upper() + row[1:]


def time_label(box: SearchBox) -> str:
    """Return the box's period in words."""
    first, last = day_of(box.after), day_of(box.before)
    if first and last:
        return name_of_range(DayRange(first, last))
    if box.after:
        return gettext("Since %(day)s") % {"day": date_format(first, "DATE_FORMAT") if first else box.after}
    return (
        gettext("Until %(day)s") % {"day": date_format(last, "DATE_FORMAT") if last else box.before}
        if box.before
        else ""
    )


def day_of(text: str) -> date | None:
    """Return the day that is written as 2026-03-31; None if it is none."""
    try:
        return parse_date(text)
    except ValueError:
        return None


def presets_of(box: SearchBox, today: date) -> list[Preset]:
    """Return periods that end today, and one without an end."""
    starts = (
        (gettext("Today"), today),
        (gettext("Past 7 days"), today - timedelta(days=6)),
        (gettext("Past 30 days"), today - timedelta(days=29)),
        (gettext("This year"), date(today.year, 1, 1)),
    )
    since = [
        Preset(label, replace(box, after=day.isoformat(), before="").query_string, _fields(day.isoformat()))
        for label, day in starts
    ]
    return [Preset(gettext("Any time"), box.without("after", "before"), _fields("")), *since]


def _fields(after: str) -> str:
    return json.dumps({"after": after, "before": ""})


def choices_of(caller: Caller, box: SearchBox) -> Choices:
    """Return the agents and projects of the caller's conversations. One query.

    A conversation that names no agent counts for its source, as in a search.
    """
    of_caller = Conversation.objects.filter(
        archive_id=caller.archive_id, archived_at__isnull=not box.archived
    ).order_by()
    agent = Case(When(agent="", then=F("source")), default=F("agent"))
    listed = of_caller.values_list(agent, "project").annotate(count=Count("pk"))[:CHOICES_LIMIT]
    rows = [((by, project), count) for by, project, count in listed]
    chosen = (box.agent, box.project)
    choices = {}
    for column, name in enumerate(CHOICES):
        # Count the conversations for each value in column `place` that match the choices in the other columns.
        others = [at for at, is_chosen in enumerate(chosen) if is_chosen and at != column]
        counts: Counter[str] = Counter()
        for values, count in rows:
            counts[values[column]] += count if all(values[at] in chosen[at] for at in others) else 0
        # The values that conversations have, most frequent first, and always the chosen ones.
        chosen_here = chosen[column]
        options = {value: count for value, count in counts.items() if value and (count or value in chosen_here)}
        options |= {value: 0 for value in chosen_here if value not in options}
        labels = distinct_names(options) if name == "project" else {value: value for value in options}
        ordered = sorted(options.items(), key=lambda pair: (-pair[1], labels[pair[0]].lower()))
        choices[name] = tuple(Choice(value, labels[value], count, value in chosen_here) for value, count in ordered)
    return choices


def distinct_names(paths: Iterable[str]) -> dict[str, str]:
    """Return each path's last folder; of paths with the same one, with the folders above it that tell them apart."""
    parts = {path: path.replace("\\", "/").rstrip("/").split("/") for path in paths}
    names = {path: folders[-1] for path, folders in parts.items()}
    for depth in range(2, MAX_DEPTH):
        twins = Counter(names.values())
        names |= {path: "/".join(parts[path][-depth:]) for path, name in names.items() if twins[name] > 1}
    twins = Counter(names.values())
    return {path: path if twins[name] > 1 else name or path for path, name in names.items()}


def with_full_names(box: SearchBox, choices: Choices) -> SearchBox:
    """Return the box with the full names of agents and projects.

    A person may type them in any case, and a project by its last part.
    """
    full_names: dict[str, Any] = {
        name: tuple(_full_name(typed, names) or typed for typed in getattr(box, name))
        for name, names in choices.items()
        if name in box.typed
    }
    return replace(box, **full_names)


def _full_name(typed: str, choices: Iterable[Choice]) -> str:
    """Return the known value that was meant; "" if there is none."""
    meant = folded(typed)
    values = [choice for choice in choices if choice.count or not choice.is_chosen]
    for matches in (
        (choice.value for choice in values if choice.value.lower() == typed.lower()),
        (choice.value for choice in values if folded(choice.value) == meant),
        (choice.value for choice in values if folded(choice.label) == meant),
        (choice.value for choice in values if folded(choice.label).startswith(meant)),
    ):
        if match := next(matches, ""):
            return match
    return ""
