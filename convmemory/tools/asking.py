"""The tool `conversation_ask`: the passages that answer a question, or that nothing stored does. It calls no model."""

from typing import Any

from convmemory.accounts.callers import Caller
from convmemory.tools.definition import SearchOutput, Tool
from convmemory.tools.searching import SearchInput, Space, found_turn
from search.pages.answers import answering_hits, asks
from search.query import SearchQuery
from search.results.hits import Hit
from search.searching import search

ANSWERS = 3
ASK_A_QUESTION = "This asks nothing: write a full question about a subject, or search for words."


class AskInput(SearchInput):
    space: Space = ""


class AskOutput(SearchOutput):
    """The turns that are likely to answer, best first; without any, the `nearest` one."""

    # Turns as `ConversationSearch` lists them.
    results: list[Any]
    nearest: Any = None


def ask(caller: Caller | None, arguments: AskInput) -> AskOutput:
    """Return the turns that answer a question, in the archives that the caller reads. Raises: InvalidInput, NotFound
    for another space.
    """
    query = SearchQuery(text=arguments.query, limit=ANSWERS, scope=arguments.kinds, filters=arguments.filters)
    results = search(caller=caller, query=query, chosen=arguments.space, folds_copies=True)
    answering = answering_hits(query, results)
    return AskOutput(
        results=[_as_json(hit) for hit in answering],
        nearest=_as_json(results.hits[0]) if results.hits and not answering else None,
        note=" ".join([*results.notes, *([] if asks(query) else [ASK_A_QUESTION])]) or None,
        reason=results.reason,
        pending=results.pending or None,
    )


def _as_json(hit: Hit) -> dict[str, Any]:
    return found_turn(hit).model_dump(mode="json", exclude_none=True)


CONVERSATION_ASK = Tool(
    name="conversation_ask",
    description=(
        "The turns that answer one question, with their outcome, or that nothing stored answers it. Use it before you "
        "answer from memory; not to list or browse. Good query: 'which lock timeout did we choose'. Bad: 'timeout'."
    ),
    input_model=AskInput,
    output_model=AskOutput,
    function=ask,
)
