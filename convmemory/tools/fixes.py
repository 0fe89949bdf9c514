"""The tool that finds how an error was fixed before: what changed until it stopped appearing."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, Field

from convmemory.accounts.callers import Caller
from convmemory.conversations.files import turns_with_outcomes
from convmemory.conversations.filters import Filters
from convmemory.conversations.messages.edits import Edit
from convmemory.conversations.messages.errors import Fix, MessageInTurn, fix_in, signatures_of, words_of
from convmemory.conversations.messages.parts import part_from_json
from convmemory.conversations.models import Message
from convmemory.core.errors import InvalidInput
from convmemory.core.text import one_line
from convmemory.tools.definition import Text, Tool, ToolInput, ToolOutput
from convmemory.tools.files import WhyTurn, turn_line, turn_out
from search.query import SearchQuery
from search.searching import TURNS_ALONE, search

TURNS_SEARCHED = 20
MESSAGES_READ = 400  # of a conversation, from the first report on
CONVERSATIONS_READ = 8
FIXES_SHOWN, CHANGES_SHOWN, CHANGE_CHARS = 3, 4, 160
NO_ERROR = "There is no line of an error in this text: send the output of the command."
UNCONFIRMED = "not seen again there, but no command shows that it passed"


class FindFixInput(ToolInput):
    error: Annotated[Text, Field(description="output")]


class FixChange(BaseModel):
    file: str
    removed: str
    added: str


class FoundFix(BaseModel):
    turn: WhyTurn
    passed: str
    changes: list[FixChange]


class FindFixOutput(ToolOutput):
    signature: str
    fixes: list[FoundFix]
    text: str


def find_fix(caller: Caller | None, arguments: FindFixInput) -> FindFixOutput:
    """Return the turns of the caller after which an error stopped appearing, those with a passing command first.

    All archives of the caller's key are searched. Raises: InvalidInput.
    """
    signatures = signatures_of(arguments.error)
    if not signatures or caller is None:
        return FindFixOutput(signature="", fixes=[], text=NO_ERROR, note=NO_ERROR)
    fixes: list[FoundFix] = []
    for access in (caller.archive, *caller.spaces):
        with caller.in_(access) as there:
            fixes += _fixes_in(there, signatures)
    fixes.sort(key=lambda fix: (bool(fix.passed), fix.turn.created_at), reverse=True)
    fixes = fixes[:FIXES_SHOWN]
    unfixed = f"No archived session saw this error and went on without it: {signatures[0]}"
    text = "\n".join(map(_fix_text, fixes)) or unfixed
    return FindFixOutput(signature=signatures[0], fixes=fixes, text=text, note=None if fixes else unfixed)


def _fixes_in(caller: Caller, signatures: list[str]) -> list[FoundFix]:
    reports: dict[int, list[int]] = {}
    for signature in signatures:
        for conversation, turn in _reports_of(caller, signature):
            reports.setdefault(conversation, []).append(turn)
        if reports:
            break
    fixes: dict[tuple[int, int], Fix] = {}
    for conversation, turns_of in list(reports.items())[:CONVERSATIONS_READ]:
        # From the likeliest report on, or from the first: a long session may have words of the error long before it.
        for turn in dict.fromkeys((turns_of[0], min(turns_of))):
            if fix := fix_in(_messages_from(caller, conversation, turn), frozenset(signatures)):
                fixes[conversation, fix.turn] = fix
                break
    turns = turns_with_outcomes(caller, list(fixes))
    return [
        FoundFix(turn=turn_out(turn), passed=fix.passed, changes=_changes(fix.changes))
        for turn, fix in ((turns[key], fix) for key, fix in fixes.items() if key in turns)
    ]


def _messages_from(caller: Caller, conversation: int, turn: int) -> Iterator[MessageInTurn]:
    """Yield the messages of a conversation from a turn on."""
    rows = Message.objects.filter(
        archive_id=caller.archive_id, conversation_id=conversation, superseded=False, turn_number__gte=turn
    ).order_by("position")
    for number, role, parts in rows.values_list("turn_number", "role", "parts")[:MESSAGES_READ].iterator():
        if number is not None:
            yield MessageInTurn(number, role, tuple(map(part_from_json, parts)))


def _reports_of(caller: Caller, signature: str) -> list[tuple[int, int]]:
    """Return conversations and turns whose outputs or questions have the words of a signature."""
    query = SearchQuery(
        text=words_of(signature), limit=TURNS_SEARCHED, mode="full_text", scope=frozenset({"user", "tool"}),
        filters=Filters(kinds=TURNS_ALONE, archived=None), is_timeless=True, min_chars=1, may_rerank=False,
        compares_later=False,
    )  # fmt: skip
    try:
        results = search(caller=caller.alone(), query=query)
    except InvalidInput:
        return []
    return [(hit.object_id, hit.number) for hit in results.hits]


def _changes(edits: tuple[Edit, ...]) -> list[FixChange]:
    changes: dict[str, FixChange] = {}
    for edit in edits:
        removed, added = next(iter(edit.texts), ("", ""))
        changes[edit.path] = FixChange(
            file=edit.path, removed=one_line(removed, CHANGE_CHARS), added=one_line(added, CHANGE_CHARS)
        )
    return list(changes.values())[-CHANGES_SHOWN:]


def _fix_text(fix: FoundFix) -> str:
    ended = f"`{fix.passed}` passed then" if fix.passed else UNCONFIRMED
    changed = "".join(
        f"\n  - {each.file}: " + " → ".join(f"`{text}`" for text in (each.removed, each.added) if text)
        for each in fix.changes
    )
    return f"- fixed in {turn_line(fix.turn.model_dump())} | {ended}{changed}"


def fix_as_text(answer: dict[str, Any]) -> str:
    return str(answer["text"])


FIND_FIX = Tool(
    name="find_fix",
    description="How an error was fixed. Use it when a command fails; not for advice. 'E: …'",
    input_model=FindFixInput,
    output_model=FindFixOutput,
    function=find_fix,
    as_text=fix_as_text,
)
