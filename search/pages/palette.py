"""The entries of the palette for a typed text: conversations and documents by title, projects, searches, commands."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db.models import Value
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation, project_name
from convmemory.core.folding import folded
from convmemory.documents.models import Document
from search.pages.chips import filters_in
from search.pages.past_searches import past_searches
from search.retrieval.typing_errors import correct_typing_errors

TITLES_LIMIT, DOCUMENTS_LIMIT, PROJECTS_LIMIT, SEARCHES_LIMIT = 8, 4, 4, 4
MAX_TEXT_CHARS = 200

COMMANDS = (
    (_("New chat"), "plus", "new-chat"),
    (_("Library"), "library", "library"),
    (_("Documents"), "note", "documents"),
    (_("Recall"), "recall", "recall"),
    (_("Import"), "upload", "import"),
    (_("Statistics"), "chart", "statistics"),
    (_("Trash"), "trash", "trash"),
    (_("Account"), "person", "account"),
    (_("Password"), "lock", "password"),
    (_("Appearance"), "panes", "appearance"),
    (_("Agents"), "agent", "agents"),
    (_("API keys"), "key", "keys"),
    (_("Shared links"), "link", "share-links"),
    (_("Connect an agent"), "plug", "connect"),
    (_("Spaces"), "person", "spaces"),
    (_("Your data"), "box", "data"),
)
"""The name, the icon and the URL name of each page; those whose URL does not exist are left out."""


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """One line of the palette."""

    label: str
    detail: str
    icon: str
    address: str


@dataclass(frozen=True, slots=True)
class PaletteSection:
    """Lines of one kind."""

    label: str
    entries: tuple[PaletteEntry, ...]


def palette_sections(*, caller: Caller, text: str, left_out: Collection[str] = ()) -> list[PaletteSection]:
    """Return the sections that have entries: first a page of exactly this name, then those of the archive.

    The pages are those of the caller's person, without the URL names `left_out`. At most four queries; more if no
    title contains the words, which are then corrected.
    """
    words, typed = text[:MAX_TEXT_CHARS].split(), text.strip()
    conversations, documents = _titles(caller, words)
    label = gettext("Conversations")
    if words and not (conversations or documents):
        correction = correct_typing_errors(caller.archive_id, text[:MAX_TEXT_CHARS])
        meant = correction.text.split() if correction else []
        if meant:
            conversations, documents = _titles(caller, meant)
        if conversations:
            label = gettext("Conversations: %(text)s") % {"text": " ".join(meant)}
    search = PaletteEntry(
        gettext("Search for “%(text)s”") % {"text": typed},
        "",
        "search",
        f"{reverse('search')}?{urlencode({'q': typed})}",
    )
    spaces = [access for access in caller.spaces if all(folded(word) in folded(access.name) for word in words)]
    sections = (
        PaletteSection(gettext("Search"), (search,) if words else ()),
        PaletteSection(label, conversations),
        PaletteSection(gettext("Documents"), documents),
        PaletteSection(
            gettext("Spaces"),
            tuple(
                PaletteEntry(access.name, access.role_name, "person", reverse("space", args=[access.archive_id]))
                for access in (spaces if words else ())
            ),
        ),
        PaletteSection(gettext("Projects"), tuple(_projects(caller, words) if words else ())),
        PaletteSection(gettext("Searches"), tuple(_searches(caller, words))),
    )
    pages = [*_commands(caller.user, words, left_out)]
    exact = [page for page in pages if folded(page.label) == folded(typed)]
    go_to = PaletteSection(gettext("Go to"), (*exact, *(page for page in pages if page not in exact)))
    return [section for section in ((go_to, *sections) if exact else (*sections, go_to)) if section.entries]


def _titles(caller: Caller, words: Sequence[str]) -> tuple[tuple[PaletteEntry, ...], tuple[PaletteEntry, ...]]:
    """Return conversations and documents whose titles contain the words; the newest conversations without words.

    One query.
    """
    conversations = Conversation.objects.filter(archive_id=caller.archive_id, archived_at=None)
    documents = Document.objects.filter(archive_id=caller.archive_id) if words else Document.objects.none()
    for word in words:
        conversations, documents = (
            conversations.filter(title__folded_contains=word),
            documents.filter(title__folded_contains=word),
        )
    newest = conversations.order_by("-updated_at", "-pk").annotate(kind=Value("conversation"))[:TITLES_LIMIT]
    last = documents.order_by("-pk").annotate(kind=Value("document"))[:DOCUMENTS_LIMIT]
    rows = newest.values_list("kind", "pk", "title", "agent").union(
        last.values_list("kind", "pk", "title", "name"), all=True
    )
    entries: dict[str, list[PaletteEntry]] = {"conversation": [], "document": []}
    for kind, pk, title, detail in rows:
        untitled = gettext("Untitled conversation") if kind == "conversation" else detail
        icon = "chat" if kind == "conversation" else "note"
        entries[kind].append(PaletteEntry(title or untitled, detail, icon, reverse(kind, args=[pk])))
    return tuple(entries["conversation"]), tuple(entries["document"])


def _projects(caller: Caller, words: Iterable[str]) -> Iterator[PaletteEntry]:
    rows = Conversation.objects.filter(archive_id=caller.archive_id, archived_at=None).exclude(project="").order_by()
    for word in words:
        rows = rows.filter(project__folded_contains=word)
    for project in rows.values_list("project", flat=True).distinct()[:PROJECTS_LIMIT]:
        yield PaletteEntry(
            project_name(project), project, "library", f"{reverse('search')}?{urlencode({'project': project})}"
        )


def _searches(caller: Caller, words: Iterable[str]) -> list[PaletteEntry]:
    saved, recent = past_searches(caller)
    matching = [row for row in [*saved, *recent] if all(folded(word) in folded(row.text) for word in words)]
    return [
        PaletteEntry(
            row.text or gettext("Filters only"),
            filters_in(row.address),
            "star" if row.saved_at else "clock",
            f"{reverse('search')}?{row.address}",
        )
        for row in matching[:SEARCHES_LIMIT]
    ]


def _commands(person: User, words: Iterable[str], left_out: Collection[str]) -> Iterator[PaletteEntry]:
    for label, icon, name in COMMANDS:
        if name in left_out:
            continue
        if name == "password" and not person.has_usable_password():
            continue  # such as who signs in with the company's account
        if all(folded(word) in folded(str(label)) for word in words):
            try:
                yield PaletteEntry(str(label), "", icon, reverse(name))
            except NoReverseMatch:  # a page that this installation does not have
                continue
