"""The values that the index reads, and the protocol by which a kind of source provides its texts.

A source (a conversation, a diary, a document) is one row of `Source` with numbered items. The index reads all that it
needs of a source through the adapter of its kind.

    class DiaryAdapter(SourceAdapter):
        kind, item_name = "diary", "entry"
        passage_kinds = frozenset({"user"})
        is_embedded = True

        def read_range(self, owner_id, object_id, first, last):
            entries = Entry.objects.filter(archive_id=archive_id, diary_id=object_id, number__range=(first, last))
            return [one_element_item(e.pk, e.number, "user", e.text, e.written_at) for e in entries.order_by("number")]

        def read_elements(self, owner_id, element_ids):
            entries = Entry.objects.filter(archive_id=archive_id, pk__in=set(element_ids))
            return {e.pk: one_element_item(e.pk, e.number, "user", e.text).elements[0] for e in entries}

        def url(self, object_id, item_number):
            return f"/diaries/{object_id}#{item_number}"

    register(DiaryAdapter())                          # in an AppConfig's `ready`
    put_source(facts, first_changed=3)                # in the transaction that changes entry 3 and later ones

An adapter that derives from `SourceAdapter` inherits its other methods, and may override them with faster ones.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

Kind = Literal["user", "assistant", "thinking", "tool", "call", "document", "system", "outside"]
"""The kinds of text.

`tool` is tool output, `system` a system prompt, `outside` text outside the turns of a source, which is recalled, too.
By the meaning of both no turn is ranked.
"""
# The length of `Item.heading`.
MAX_HEADING_CHARS = 300
ItemKey = tuple[int, int]
"""The object's number and the item's."""


@dataclass(frozen=True, slots=True)
class ElementPart:
    """A text of an element; its passages count characters in it.

    `label` is searched with it and never embedded (a file's name); only parts with `in_vector` contribute to the vector
    of the whole item.
    """

    index: int
    kind: Kind
    text: str
    label: str = ""
    in_vector: bool = True


@dataclass(frozen=True, slots=True)
class Element:
    """The unit that passages belong to: a message, a paragraph. `speaker` precedes its text in embedded texts.

    `name` is the speaker's own name, which can be searched for; `digest` identifies this version of the element for
    status records.
    """

    element_id: int
    item_number: int
    parts: tuple[ElementPart, ...]
    speaker: str = ""
    name: str = ""
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class Utterance:
    """The speaker of an element and of the next one, "" without a name; `place` counts elements of the object.

    `ends_item` says whether the next element belongs to another item.
    """

    place: int
    name: str = ""
    next_name: str = ""
    ends_item: bool = False


@dataclass(frozen=True, slots=True)
class ItemText:
    """An item, from which all index rows are derived. `heading` is shown in hits, `opening_id` is its first element."""

    number: int
    heading: str
    elements: tuple[Element, ...]
    opening_id: int | None = None
    created_at: datetime | None = None


def one_element_item(
    element_id: int, number: int, kind: Kind, text: str, created_at: datetime | None = None
) -> ItemText:
    """Return an item with a single text, whose beginning is the heading."""
    element = Element(element_id, number, (ElementPart(0, kind, text),))
    return ItemText(number, text[:MAX_HEADING_CHARS], (element,), element_id, created_at)


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The index's facts about a source: its owner, its filter columns, and its version, which only grows."""

    kind: str
    archive_id: int
    object_id: int
    version: int
    item_count: int
    element_count: int
    created_at: datetime
    updated_at: datetime
    title: str = ""
    agent: str = ""
    project: str = ""
    origin: str = ""
    archived: bool = False


class SourceAdapter(Protocol):
    """Reads one kind of source, always by owner; objects that no longer exist are left out.

    `item_name` is the name of an item for people; `passage_kinds` are the kinds of its elements' parts.
    """

    kind: str
    item_name: str
    passage_kinds: frozenset[Kind]

    @property
    def is_embedded(self) -> bool:
        """Return whether its items get vectors; otherwise they are found by words alone."""
        return True

    def read_range(self, archive_id: int, object_id: int, first: int, last: int) -> list[ItemText]:
        """Return the items `first` to `last` of one object, in order."""
        ...

    def read_items(self, archive_id: int, items: Sequence[ItemKey]) -> dict[ItemKey, ItemText]:
        """Return some items of any objects; one by one, unless an adapter overrides this."""
        ranges = ((key, self.read_range(archive_id, key[0], key[1], key[1])) for key in items)
        return {key: read[0] for key, read in ranges if read}

    def read_elements(self, archive_id: int, element_ids: Iterable[int]) -> dict[int, Element]:
        """Return some elements of any objects."""
        ...

    def read_elements_with(
        self, archive_id: int, element_ids: Iterable[int], stems: Collection[str]
    ) -> dict[int, Element]:
        """Return some elements of any objects; with stems of words, at least those whose texts contain one.

        All of them, unless an adapter overrides this.
        """
        return self.read_elements(archive_id, element_ids)

    def send_utterances_query(self, archive_id: int, element_ids: Iterable[int]) -> Callable[[], dict[int, Utterance]]:
        """Send the query for the speakers of some elements and of the next ones.

        Calling the returned function waits for the speakers, by element; empty for kinds without speakers.
        """
        return dict

    def elements_with(self, archive_id: int, text: str, *, scanned: int, limit: int) -> list[tuple[int, int]]:
        """Return objects and their elements that may contain a text, letter for letter, the newest first.

        Only the newest elements are scanned. None, unless an adapter overrides this: a sign that is no word is then
        found by meaning alone.
        """
        return []

    def url(self, object_id: int, item_number: int) -> str:
        """Return the item's URL for its owner."""
        ...

    def reading_url(self, object_id: int, item_number: int) -> str:
        """Return the URL of the admin's page with the item's content, for staff who may read it; "" if there is
        none.
        """
        return ""

    def reconcile(self) -> int:
        """Correct the sources whose facts differ from their objects', after unannounced changes; return their
        number.
        """
        return 0


_adapters: dict[str, SourceAdapter] = {}


def register(adapter: SourceAdapter) -> None:
    """Let the index read sources of this kind."""
    _adapters[adapter.kind] = adapter


def unregister(kind: str) -> None:
    """Forget a kind, for tests."""
    _adapters.pop(kind, None)


def adapter_of(kind: str) -> SourceAdapter:
    """Return the adapter of a kind. Raises: KeyError for a kind that no app registered."""
    return _adapters[kind]


def kinds_without_vectors() -> list[str]:
    """Return the kinds whose items are found by words alone under the current settings."""
    return [kind for kind, adapter in _adapters.items() if not adapter.is_embedded]


def registered() -> Mapping[str, SourceAdapter]:
    """Return the adapters by kind."""
    return _adapters
