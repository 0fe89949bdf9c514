"""Threads with branches, rewinds, or messages without ids, between parsing and storing.

`order_thread` (and `read_thread` with it) orders nodes with parents, `Timeline` follows a log with rewinds, `named` and
`MessageKeys` name conversations and messages without ids. Messages off the current branch are stored, marked as
superseded. All of it takes time linear in its input: parents in foreign data can be missing, repeated or cyclic.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.values import key_of, short_hash
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import MAX_ID_CHARS, is_global_id, named_by_opening
from convmemory.conversations.messages.parts import ToolCallPart, ToolResultPart

MAX_TOOL_NAMES = 100_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node(Generic[T]):
    """A message of a branching thread. `parent` is the id of the message before it, "" for a first message."""

    id: str
    parent: str
    value: T


@dataclass(frozen=True, slots=True)
class Placed(Generic[T]):
    """A node's value in the thread's order; `superseded` if it is not on the current branch."""

    value: T
    superseded: bool


def order_thread(
    nodes: Iterable[Node[T]], *, report: FileReport, current: str = "", position: str = "thread"
) -> list[Placed[T]]:
    """Return all nodes: the branch that ends in `current`, with each other branch after the node where it forks.

    Without a known `current`, the last unanswered message ends the current branch. A node whose parent is missing
    follows the node before it; a cycle is cut. Both are reported at `position` as repaired.
    """
    listed = list(nodes)
    parents = _parents(listed, report, position)
    leaf = _leaf(listed, parents, current, report, position)
    branch: list[int] = []
    while leaf is not None:
        branch.append(leaf)
        leaf = parents[leaf]
    branch = branch[::-1]
    # The children of each node (None: the first messages) that are not on the branch.
    on_branch = set(branch)
    off_branch: dict[int | None, list[int]] = {}
    for at, parent in enumerate(parents):
        if at not in on_branch:
            off_branch.setdefault(parent, []).append(at)
    order: list[Placed[T]] = []
    for fork in (None, *branch):
        if fork is not None:
            order.append(Placed(listed[fork].value, superseded=False))
        order.extend(
            Placed(listed[other].value, superseded=True) for other in _subtrees(off_branch.get(fork, []), off_branch)
        )
    return order


def read_thread(
    nodes: Iterable[Node[T]],
    *,
    read: Callable[[T], Iterable[MessageDraft]],
    report: FileReport,
    current: str = "",
    position: str = "thread",
) -> Iterator[MessageDraft]:
    """Yield the messages that `read` yields for each node, in the order of `order_thread`, superseded ones marked."""
    for placed in order_thread(nodes, report=report, current=current, position=position):
        for draft in read(placed.value):
            yield replace(draft, superseded=True) if placed.superseded else draft


def _parents(nodes: Sequence[Node[T]], report: FileReport, position: str) -> list[int | None]:
    """Return for each node the index of its parent in the list; one that is its own ancestor has none."""
    indices: dict[str, int] = {}
    for at, node in enumerate(nodes):
        indices.setdefault(node.id, at)
    parents: list[int | None] = []
    for at, node in enumerate(nodes):
        parent = indices.get(node.parent) if node.parent else None
        if node.parent and parent is None and at:
            report.repair(position, f"{node.id[:80]!r} follows a message that is missing: put behind the one before it")
            parent = at - 1
        parents.append(parent)
    settled = [False] * len(parents)
    for start in range(len(parents)):
        chain: list[int] = []
        on_chain: set[int] = set()
        link: int | None = start
        # Settled nodes are not visited again, which keeps this linear.
        while link is not None and not settled[link]:
            chain.append(link)
            on_chain.add(link)
            above = parents[link]
            if above in on_chain:
                report.repair(position, "its messages follow one another in a circle: cut open")
                parents[link] = above = None
            link = above
        for step in chain:
            settled[step] = True
    return parents


def _leaf(
    nodes: Sequence[Node[T]], parents: Sequence[int | None], current: str, report: FileReport, position: str
) -> int | None:
    """Return the end of the current branch; None without nodes."""
    if current:
        leaf = next((at for at, node in enumerate(nodes) if node.id == current), None)
        if leaf is not None:
            return leaf
        report.repair(position, f"its current message {current[:80]!r} is missing: the last branch counts as current")
    answered = set(parents)
    return next((at for at in reversed(range(len(nodes))) if at not in answered), None)


def _subtrees(roots: Sequence[int], children: dict[int | None, list[int]]) -> Iterator[int]:
    """Yield these nodes, each before its descendants."""
    waiting = list(reversed(roots))
    while waiting:
        at = waiting.pop()
        yield at
        waiting.extend(reversed(children.get(at, [])))


@dataclass(slots=True)
class Timeline:
    """Receives the keys of messages in the order of a log; then `superseded` contains those that were rewound."""

    superseded: set[str] = field(default_factory=set)
    _current: list[str] = field(default_factory=list)
    _opens_turn: dict[str, bool] = field(default_factory=dict)  # for the current messages

    def add(self, key: str, *, opens_turn: bool = False) -> None:
        """Record a message. A repeated one keeps its first position; a rewound one is current again."""
        if key not in self._opens_turn:
            self._current.append(key)
            self.superseded.discard(key)
        self._opens_turn[key] = opens_turn

    def rewind_to(self, key: str) -> int:
        """Supersede this message and all after it, everything if it is not known; returns how many."""
        is_known = key in self._opens_turn
        taken = 0
        while self._current:
            last = self._take_back()
            taken += 1
            if is_known and last == key:
                break
        return taken

    def roll_back(self, turns: int) -> int:
        """Supersede the last turns, each with the message that opened it; returns how many messages."""
        taken = 0
        while turns > 0 and self._current:
            opened = self._opens_turn[self._current[-1]]
            self._take_back()
            taken += 1
            turns -= opened
        return taken

    def _take_back(self) -> str:
        key = self._current.pop()
        del self._opens_turn[key]
        self.superseded.add(key)
        return key


def named(draft: ConversationDraft, native_id: str, *, former: str = "") -> ConversationDraft:
    """Return the draft with the id that its producer gave, or without one with an id that its first messages give.

    `former` is the name that earlier versions gave to such a conversation.
    """
    own_id = key_of(native_id, max_chars=MAX_ID_CHARS)
    if own_id:
        return replace(draft, source_id=own_id, has_weak_id=not is_global_id(own_id))
    return named_by_opening(draft, former_ids=filter(None, [key_of(former, max_chars=MAX_ID_CHARS)]))


@dataclass(slots=True)
class MessageKeys:
    """Names messages without ids by their text, so that another file of the same thread gives them the same keys."""

    _counts: Counter[str] = field(default_factory=Counter)

    def key(self, role: str, text: str, *, scope: str = "") -> str:
        """Return `scope:role:hash`, numbered if the text is repeated. `scope` is a turn's id, if there is one."""
        name = key_of(":".join(filter(None, (scope, role, short_hash(text, 16)))))
        self._counts[name] += 1
        count = self._counts[name]
        return name if count == 1 else f"{name}:{count}"


@dataclass(slots=True)
class ToolNames:
    """Names the results of tools after their calls: many programs leave the name out of a result."""

    _names: dict[str, str] = field(default_factory=dict)

    def added_to(self, draft: MessageDraft) -> MessageDraft:
        """Remember the calls of the message, and return it with the names of the results in it."""
        for part in draft.parts:
            if isinstance(part, ToolCallPart) and part.id and len(self._names) < MAX_TOOL_NAMES:
                self._names[part.id] = part.name
        if draft.role != "tool":
            return draft
        parts = (
            replace(part, name=self._names.get(part.call_id, ""))
            if isinstance(part, ToolResultPart) and not part.name
            else part
            for part in draft.parts
        )
        return replace(draft, parts=tuple(parts))
