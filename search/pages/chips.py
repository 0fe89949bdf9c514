"""The filter chips under the search box: label, choices, and the number of conversations for each choice."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.db.models import Count
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from convmemory.conversations.filters import EXACT
from convmemory.conversations.models import Conversation
from convmemory.conversations.pages.search_box import SPOKEN, SearchBox
from convmemory.conversations.reading import project_name

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

CHOICES_LIMIT = 500
SCOPE_NAMES = {"user": _("questions"), "assistant": _("answers"), "thinking": _("thinking"), "tool": _("tools")}
KIND_NAMES = {"turn": _("conversations"), "section": _("documents")}
LABELS: dict[str, Callable[[str], str]] = {"project": project_name}
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


Choices = Mapping[str, tuple[Choice, ...]]
"""The values that the chips offer, by the name of the filter."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A period to choose; `query` is the URL query with it, `values` the form's fields."""

    label: str
    query: str
    values: str


def chips_of(box: SearchBox) -> list[Chip]:
    """Return the chips in order; an active one shows its filter."""
    spoken = ",".join(SPOKEN)
    return [
        _chip(box, "agent", gettext("Agent"), box.agent, {"agent": ""}),
        _chip(box, "project", gettext("Project"), project_name(box.project), {"project": ""}),
        _chip(box, "time", gettext("Any time"), time_label(box), {"after": "", "before": ""}),
        _chip(box, "places", gettext("Look in"), _places_label(box), {"scope": spoken, "kind": "", "archived": ""}),
        _chip(box, "source", gettext("Source"), box.source, {"source": ""}),
        _chip(box, "order", gettext("Best first"), _order_label(box), {"sort": "", "mode": "hybrid"}),
    ]


def _chip(box: SearchBox, name: str, usual: str, label: str, cleared: Mapping[str, str]) -> Chip:
    return Chip(
        name=name,
        label=label or usual,
        is_on=bool(label),
        clear=box.without(*cleared),
        cleared=json.dumps(cleared),
        template=f"search/chip_{name}.html",
    )


def _places_label(box: SearchBox) -> str:
    kept = [name for name in SCOPE_NAMES if name in box.scope]
    said = [SCOPE_NAMES[name] for name in kept] if set(box.scope) != set(SPOKEN) else []
    where = [KIND_NAMES[box.kind]] if box.kind else []
    return _listed(*where, *said, *([gettext("archived")] if box.archived else []))


def _order_label(box: SearchBox) -> str:
    return _listed(gettext("newest first") if box.sort else "", MODE_NAMES.get(box.mode, ""))


def _listed(*words: "StrOrPromise") -> str:
    """Join the words with commas and capitalise the first; the others stay as they are written."""
    row = ", ".join(str(word) for word in words if word)
    return row[:1].upper() + row[1:]


def time_label(box: SearchBox) -> str:
    """Return the box's period in words."""
    if box.after and box.before:
        return (
            box.after
            if box.after == box.before
            else gettext("%(after)s to %(before)s") % {"after": box.after, "before": box.before}
        )
    if box.after:
        return gettext("Since %(day)s") % {"day": box.after}
    return gettext("Until %(day)s") % {"day": box.before} if box.before else ""


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


def choices_of(owner: User, box: SearchBox) -> Choices:
    """Return the values that the caller's conversations have. One query."""
    own = Conversation.objects.filter(owner_id=owner.pk, archived_at__isnull=not box.archived).order_by()
    listed = own.values_list(*EXACT).annotate(count=Count("pk"))[:CHOICES_LIMIT]
    rows = [(tuple(values), count) for *values, count in listed]
    chosen = tuple(getattr(box, name) for name in EXACT)
    return {
        name: _choices(_counted(rows, place, chosen), chosen[place], LABELS.get(name, str))
        for place, name in enumerate(EXACT)
    }


def _counted(rows: Iterable[tuple[tuple[str, ...], int]], place: int, chosen: tuple[str, ...]) -> Counter[str]:
    """Count the conversations for each value in column `place` that match the choices in the other columns."""
    others = [at for at, wanted in enumerate(chosen) if wanted and at != place]
    counts: Counter[str] = Counter()
    for values, count in rows:
        counts[values[place]] += count if all(values[at] == chosen[at] for at in others) else 0
    return counts


def _choices(counts: Counter[str], chosen: str, label: Callable[[str], str]) -> tuple[Choice, ...]:
    """Return the values that conversations have, most frequent first, and always the chosen one."""
    values = {value: count for value, count in counts.items() if value and (count or value == chosen)}
    if chosen:
        values.setdefault(chosen, 0)
    ordered = sorted(values.items(), key=lambda pair: (-pair[1], label(pair[0]).lower()))
    return tuple(Choice(value, label(value) or value, count, value == chosen) for value, count in ordered)


def with_full_names(box: SearchBox, choices: Choices) -> SearchBox:
    """Return the box with the full names of agent, project and source.

    A person may type them in any case, and a project by its last part.
    """
    found: dict[str, Any] = {
        name: full
        for name, known in choices.items()
        if name in box.typed and (full := _full_name(getattr(box, name), known))
    }
    return replace(box, **found)


def _full_name(typed: str, known: Iterable[Choice]) -> str:
    """Return the known value that was meant; "" if there is none."""
    wanted = typed.lower()
    values = [choice for choice in known if choice.count or not choice.is_chosen]
    for matches in (
        (choice.value for choice in values if choice.value.lower() == wanted),
        (choice.value for choice in values if choice.label.lower() == wanted),
        (choice.value for choice in values if choice.label.lower().startswith(wanted)),
    ):
        if match := next(matches, ""):
            return match
    return ""
