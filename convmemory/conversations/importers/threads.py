"""Between parsing and storing: threads that branch, that take messages back, or whose messages have no ids.

`order_thread` (and `read_thread` with it) puts nodes with parents into one order, `Timeline` follows a log with
rewinds, and `MessageKeys` names messages without ids. Messages off the current branch are kept, marked as superseded.
All of it takes time linear in its input: parents in foreign data can be missing, repeated or cyclic.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.values import key_of, short_hash

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node(Generic[T]):
    """A message of a branching thread. `parent` is the id of the message that it follows, "" at a beginning."""

    id: str
    parent: str
    value: T


@dataclass(frozen=True, slots=True)
class Placed(Generic[T]):
    """A node's value in the thread's order; `superseded` if it is not on the current branch."""

    value: T
    superseded: bool


def order_thread(
    nodes: Iterable[Node[T]], *, report: FileReport, current: str = "", place: str = "thread"
) -> list[Placed[T]]:
    """Return all nodes: the branch that ends in `current`, and behind the node where it forks, each other branch.

    Without a known `current`, the last message that nobody answered ends the current branch. A node whose parent is
    missing follows the node before it; a cycle is cut. Both are reported at `place` as repaired.
    """
    listed = list(nodes)
    parents = _parents(listed, report, place)
    _cut_cycles(parents, report, place)
    branch = _branch(_leaf(listed, parents, current, report, place), parents)
    beside = _beside(parents, set(branch))
    order: list[Placed[T]] = []
    for at in (None, *branch):
        if at is not None:
            order.append(Placed(listed[at].value, superseded=False))
        order.extend(Placed(listed[other].value, superseded=True) for other in _subtrees(beside.get(at, []), beside))
    return order


def read_thread(
    nodes: Iterable[Node[T]],
    *,
    read: Callable[[T], Iterable[MessageDraft]],
    report: FileReport,
    current: str = "",
    place: str = "thread",
) -> Iterator[MessageDraft]:
    """Yield the messages that `read` makes of each node, in the order of `order_thread`, superseded ones marked."""
    for placed in order_thread(nodes, report=report, current=current, place=place):
        for draft in read(placed.value):
            yield replace(draft, superseded=True) if placed.superseded else draft


def _parents(nodes: Sequence[Node[T]], report: FileReport, place: str) -> list[int | None]:
    """For each node the place of its parent in the list."""
    places: dict[str, int] = {}
    for at, node in enumerate(nodes):
        places.setdefault(node.id, at)
    parents: list[int | None] = []
    for at, node in enumerate(nodes):
        parent = places.get(node.parent) if node.parent else None
        if node.parent and parent is None and at:
            report.repair(place, f"{node.id[:80]!r} follows a message that is missing: put behind the one before it")
            parent = at - 1
        parents.append(parent)
    return parents


def _cut_cycles(parents: list[int | None], report: FileReport, place: str) -> None:
    """Let every chain of parents end: a node that is its own ancestor becomes a beginning."""
    settled = [False] * len(parents)
    for start in range(len(parents)):
        chain: list[int] = []
        on_chain: set[int] = set()
        at: int | None = start
        while at is not None and not settled[at]:
            chain.append(at)
            on_chain.add(at)
            above = parents[at]
            if above in on_chain:
                report.repair(place, "its messages follow one another in a circle: cut open")
                parents[at] = above = None
            at = above
        for step in chain:
            settled[step] = True


def _leaf(
    nodes: Sequence[Node[T]], parents: Sequence[int | None], current: str, report: FileReport, place: str
) -> int | None:
    """Where the current branch ends; None without nodes."""
    if current:
        found = next((at for at, node in enumerate(nodes) if node.id == current), None)
        if found is not None:
            return found
        report.repair(place, f"its current message {current[:80]!r} is missing: the last branch counts as current")
    answered = set(parents)
    return next((at for at in reversed(range(len(nodes))) if at not in answered), None)


def _branch(leaf: int | None, parents: Sequence[int | None]) -> list[int]:
    branch: list[int] = []
    while leaf is not None:
        branch.append(leaf)
        leaf = parents[leaf]
    return branch[::-1]


def _beside(parents: Sequence[int | None], branch: set[int]) -> dict[int | None, list[int]]:
    """Return the children of each node (None: the beginnings) that are not on the branch."""
    beside: dict[int | None, list[int]] = {}
    for at, parent in enumerate(parents):
        if at not in branch:
            beside.setdefault(parent, []).append(at)
    return beside


def _subtrees(roots: Sequence[int], children: dict[int | None, list[int]]) -> Iterator[int]:
    """These nodes, each before what follows it."""
    waiting = list(reversed(roots))
    while waiting:
        at = waiting.pop()
        yield at
        waiting.extend(reversed(children.get(at, [])))


@dataclass(slots=True)
class Timeline:
    """Fed with the keys of messages as a log names them; then `superseded` holds those that it took back."""

    superseded: set[str] = field(default_factory=set)
    _current: list[str] = field(default_factory=list)
    _opens_turn: dict[str, bool] = field(default_factory=dict)  # of those that are current

    def add(self, key: str, *, opens_turn: bool = False) -> None:
        """A message. One that is written again keeps its first place; one that was taken back counts again."""
        if key not in self._opens_turn:
            self._current.append(key)
            self.superseded.discard(key)
        self._opens_turn[key] = opens_turn

    def rewind_to(self, key: str) -> int:
        """Take back this message and what follows it, everything if it is not known; how many."""
        found = key in self._opens_turn
        taken = 0
        while self._current:
            last = self._take_back()
            taken += 1
            if found and last == key:
                break
        return taken

    def roll_back(self, turns: int) -> int:
        """Take back the last turns, each with the message that opened it; how many messages."""
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


@dataclass(slots=True)
class MessageKeys:
    """Names messages that have no id by what they say, so that another file of the same thread names them alike."""

    _counts: Counter[str] = field(default_factory=Counter)

    def key(self, role: str, text: str, *, scope: str = "") -> str:
        """Return `scope:role:hash`, numbered where the same was said before. `scope`: a turn's id, if there is one."""
        name = key_of(":".join(filter(None, (scope, role, short_hash(text, 16)))))
        self._counts[name] += 1
        count = self._counts[name]
        return name if count == 1 else f"{name}:{count}"
