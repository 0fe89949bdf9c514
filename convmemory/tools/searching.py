"""The search tools, over the same search as the page and the API, and the filters of every search tool.

`search` answers with a line of Markdown for each of a few hits. `ConversationSearch` returns everything that a model
needs to continue; `search_chat_history` keeps a format that other programs know: snippets with a cosine distance, and
an empty answer with a note instead of an error.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters, filters_of
from convmemory.conversations.messages.errors import is_report
from convmemory.conversations.messages.outcomes import Outcome, is_announcement
from convmemory.conversations.models import project_name
from convmemory.core.errors import ConvMemoryError
from convmemory.core.text import one_line, storable
from convmemory.tools.definition import (
    Moment,
    Optional,
    Question,
    SearchOutput,
    Text,
    TitledOutput,
    Tool,
    ToolInput,
    site,
)
from search.query import MAX_QUERY_CHARS
from search.reasons import Explanation, Reason
from search.results.hits import Hit, TitleHit
from search.results.telling import letters, plain
from search.searching import TURNS_ALONE, SearchQuery, search

PASTED_ERROR = "This looks like an error: the tool find_fix says how it was fixed, if a session fixed it."

ScopeName = Literal["user", "assistant", "thinking", "tool"]


def _as_list(value: Any) -> Any:
    """Accept `user,thinking`, as the API and the command do, because models write that too."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


Scope = Annotated[list[ScopeName], BeforeValidator(_as_list), Field(description="whose words")]
SAID: list[ScopeName] = ["user", "assistant"]
SAID_AND_THOUGHT: list[ScopeName] = ["user", "assistant", "thinking"]

Agent = Annotated[Text, Field(description="name")]
Project = Annotated[Text, Field(description="folder")]
After = Annotated[Moment | Optional, Field(description="said since")]
Space = Annotated[Text, Field(description="mine or a name")]
Before = Annotated[Moment | Optional, Field(description="said until")]


class SearchInput(ToolInput):
    """A question in plain text, and the filters of its search."""

    query: Annotated[Question, Field(description="a full question")]
    scope: Scope = SAID
    agent: Agent = ""
    project: Project = ""
    after: After = None
    before: Before = None

    @property
    def kinds(self) -> frozenset[str]:
        """Return the scope, or the tool's default if it is empty."""
        return frozenset(self.scope or type(self).model_fields["scope"].default)

    @property
    def filters(self) -> Filters:
        """Raises: InvalidInput if the dates are the wrong way round."""
        return filters_of(self.__dict__, kinds=TURNS_ALONE)


logger = logging.getLogger(__name__)

QUESTION_CHARS = 300
# `search` orders its hits by the logarithm of the odds of relevance and TELLING_WEIGHT of the score of the sentence
# that tells most. It leaves out what is by LEAST_LIKELY behind the best, or by LEAST_OF_LISTED in a conversation that
# another line names: such a line is short. Of 120 questions of agents over transcripts, with the deciding fact in the
# first line and in the answer: 100 and 110 in 29,900 tokens; 89 and 102 in 31,600 with a weight of 10, 5.5 for both, a
# question in each line instead of the next one in the first, and 300 characters of a conclusion.
TELLING_WEIGHT, LEAST_LIKELY, LEAST_OF_LISTED, LEAST_CHANCE = 7, 2.5, 5.25, 1e-4
SNIPPET_CHARS = 200
LABEL_CHARS, ASKED_CHARS, LINE_CHARS, PASSAGE_CHARS = 50, 60, 100, 400
SAME_CHARS = 40  # with which a text begins that is another one
LEAD_CHARS = 100  # before the best sentence of an answer
BOTH_CHARS = 160  # of a passage and of an answer in one line
TELLING_CHARS = 480  # of these and of sentences that tell more
TOLD, TOLD_LATER = 8, 3  # sentences that tell most, of the first hit and of others
MORE, LEAST_MORE_CHARS = 2, 65  # sentences in one line
LATER_CHARS = 130  # of the sentences of a hit behind the first one, which is the likeliest
_NO_BRACKETS = str.maketrans("[]", "()")


class ConversationSearchInput(SearchInput):
    scope: Scope = SAID_AND_THOUGHT
    limit: Annotated[int, Field(ge=1, le=50, description="turns a page")] = 10
    space: Space = ""
    cursor: Annotated[Text, Field(description="next_cursor")] = ""


class FoundTurn(BaseModel):
    conversation_id: int
    conversation_title: str
    turn_number: int
    agent: str
    project: str
    user_question: str
    passage: str
    # Of the first hit the answer around its best sentence, if that is not the passage: what stands around a sentence is
    # not among those that tell. Without it 98 instead of 100 of the 120 facts are in the first line.
    excerpt: str | Optional = None
    # The sentences of the turn that tell most for the query, best first.
    telling: list[str] | Optional = None
    # Of the first hit what was asked next, in which an answer is often taken, changed or refused.
    next_question: str | Optional = None
    copies: int | Optional = None
    # What the turn came to: `conclusion`, `files`, `passed` and `failed` of `messages/outcomes.py`, as far as known.
    outcome: Any = None
    similarity: float | Optional = None
    relevance: float | Optional = None
    created_at: datetime
    url: str
    mark: str | Optional = None
    # A later turn that decides otherwise: `turn_number`, `url` and the `quote` that does.
    overturned: Any = None
    space: str | Optional = None
    space_id: int | Optional = None


def named_like_query(titles: Sequence[TitleHit]) -> list[Any] | None:
    """Return the conversations and documents named like the query for an answer; None leaves them out."""
    return [
        {"kind": hit.kind, "id": hit.id, "title": hit.title, "url": f"{site()}{hit.url}"}
        | ({"space": hit.space.name, "space_id": hit.space.id} if hit.space else {})
        for hit in titles
    ] or None


class ConversationSearchOutput(TitledOutput):
    results: list[FoundTurn]
    next_cursor: str | Optional = None


def found_turn(hit: Hit, index: int = 0) -> FoundTurn:
    """Return a hit as the tools list it, at its place of the page."""
    excerpt, best = ("", 0) if index else (hit.turn.excerpt, hit.turn.excerpt_from)
    if best > LEAD_CHARS:  # the line would end before it
        excerpt = excerpt[best:]
    return FoundTurn(
        conversation_id=hit.object_id,
        conversation_title=hit.title,
        turn_number=hit.number,
        agent=hit.agent,
        project=hit.project,
        user_question=one_line(hit.heading, QUESTION_CHARS),
        passage=one_line(hit.passage, LINE_CHARS) if hit.turn.is_call else hit.passage,
        excerpt=excerpt if excerpt != hit.passage else None,
        telling=[sentence.text for sentence in hit.turn.telling[: TOLD_LATER if index else TOLD]] or None,
        next_question=one_line(hit.turn.next_question, LINE_CHARS) or None if not index else None,
        copies=hit.turn.copies or None,
        outcome=hit.turn.outcome.to_json() or None,
        similarity=hit.similarity,
        relevance=hit.relevance,
        created_at=hit.created_at,
        url=f"{site()}{hit.url}",
        mark=str(hit.turn.mark) if hit.turn.mark else None,
        overturned={"turn_number": later.turn_number, "url": f"{site()}{later.url}", "quote": later.quote}
        if (later := hit.turn.overturned)
        else None,
        space=hit.space.name if hit.space else None,
        space_id=hit.space.id if hit.space else None,
    )


def conversation_search(caller: Caller | None, arguments: ConversationSearchInput) -> ConversationSearchOutput:
    """Return turns of the caller, and of the spaces that their key reads, that answer the query, best first.

    Raises: InvalidInput, NotFound for another space.
    """
    return _found_turns(caller, arguments)


def _found_turns(
    caller: Caller | None, arguments: ConversationSearchInput, *, are_likely: bool = False
) -> ConversationSearchOutput:
    """Return the turns found, or without those that are much less likely to answer than the best one."""
    query = SearchQuery(
        text=arguments.query, limit=arguments.limit, scope=arguments.kinds, filters=arguments.filters, tells=True
    )
    results = search(caller=caller, query=query, chosen=arguments.space, cursor=arguments.cursor, folds_copies=True)
    hits = _likely(results.hits) if are_likely else results.hits
    return ConversationSearchOutput(
        titles=named_like_query(results.titles),
        results=[found_turn(hit, index) for index, hit in enumerate(hits)],
        next_cursor=results.next_cursor,
        note=" ".join(results.notes) or None,
        reason=results.reason,
        pending=results.pending or None,
    )


CONVERSATION_SEARCH = Tool(
    name="ConversationSearch",
    description=(
        "Find turns of past conversations, by meaning and by words. Use it when earlier work, a decision or "
        "an explanation matters; not for what you see already. Good query: 'why did the nightly backup stop working'. "
        "Bad: 'backup nightly'. Quotes and hyphens are plain text."
    ),
    input_model=ConversationSearchInput,
    output_model=ConversationSearchOutput,
    function=conversation_search,
)


class ShortSearchInput(SearchInput):
    scope: Scope = SAID_AND_THOUGHT
    limit: Annotated[int, Field(ge=1, le=20, description="hits")] = 4
    space: Space = ""


def _tells_less(hit: Hit) -> float:
    """Return by how much less likely a hit is to answer, also by what it can tell; 0 where that is unknown."""
    if hit.relevance is None:
        return 0.0
    chance = min(max(hit.relevance, LEAST_CHANCE), 1 - LEAST_CHANCE)
    best = max((sentence.score for sentence in hit.turn.telling), default=0)
    return -math.log(chance / (1 - chance)) - TELLING_WEIGHT * best


def _likely(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits that are not much less likely to answer than the best one, likeliest first."""
    ranked = sorted(hits, key=_tells_less)
    likely: list[Hit] = []
    for hit in ranked:
        is_of_listed = any(hit.object_id == listed.object_id for listed in likely)
        if _tells_less(hit) - _tells_less(ranked[0]) <= (LEAST_OF_LISTED if is_of_listed else LEAST_LIKELY):
            likely.append(hit)
    return likely


def short_search(caller: Caller | None, arguments: ShortSearchInput) -> ConversationSearchOutput:
    """Return the turns that answer the query, without those that are much less likely to than the best one.

    Raises: InvalidInput.
    """
    output = _found_turns(caller, ConversationSearchInput.model_construct(**dict(arguments)), are_likely=True)
    output.next_cursor = None
    if is_report(arguments.query):
        output.note = " ".join(filter(None, [output.note, PASTED_ERROR]))
    return output


def search_as_text(answer: dict[str, Any]) -> str:
    """Return one line of Markdown for each hit, and the notes. The likeliest hit also says what its turn came to.

    Conversations named like the query come first, if no hit is of them.
    """
    hit_sources = {("conversation", turn["conversation_id"]) for turn in answer["results"]}
    titles = (hit for hit in answer.get("titles", ()) if (hit["kind"], hit["id"]) not in hit_sources)
    lines = [f"- named like the query: {markdown_link(hit['title'], hit['url'])}" for hit in titles]
    headed: dict[int, str] = {}
    places = {turn["conversation_id"]: -index for index, turn in enumerate(reversed(answer["results"]))}
    # Turns of one conversation follow each other, because its first line alone names it.
    for index, turn in enumerate(sorted(answer["results"], key=lambda turn: places[turn["conversation_id"]])):
        copies = turn.get("copies", 0)
        also = f"also in {copies} other session{'s' * (copies > 1)}" if copies else ""
        space = f"space {turn['space']}" if "space" in turn else ""
        date, title = turn["created_at"][:10], turn["conversation_title"]
        about = [date, project_name(turn["project"]), turn["agent"], space, also]
        where = f"conversation_id {turn['conversation_id']}, turn {turn['turn_number']}"
        name = markdown_link(title, turn["url"])
        if day := headed.get(turn["conversation_id"]):  # an earlier line says the rest, and has a link of this form
            name, about, where = f"turn {turn['turn_number']}", ["" if date == day else date, also], ""
        headed[turn["conversation_id"]] = date
        marked = f" **{turn['mark']}** |" if "mark" in turn else ""
        question = one_line(turn["user_question"], ASKED_CHARS)
        is_title = question.startswith(title.rstrip("…")) and len(question) <= len(title)
        asked = "" if index or is_title else f" asked: {question}"
        facts = "; ".join(filter(None, [", ".join(one_line(each, LABEL_CHARS) for each in about if each), where]))
        lines.append(
            f"- {name}{f' ({facts})' if facts else ''}"
            f"{marked}{asked}{_answering(turn, is_first=not index)}{_overturned(turn)}"
        )
    note = [answer["note"]] if "note" in answer else []
    # That nothing answers is said before the hits, which would be read as answers.
    return "\n".join([*note, *lines] if answer.get("reason") == Reason.BELOW_BAR else [*lines, *note])


def _answering(turn: Mapping[str, Any], *, is_first: bool) -> str:
    """Return what a line says of a turn; of the first hit also what it concluded and changed, and what followed."""
    outcome = Outcome.from_json(turn.get("outcome"))
    if not is_first:
        return _found(turn, outcome.conclusion)
    line = _found_and_concluded(turn, outcome.conclusion)
    line += _more(turn, line)
    if "next_question" in turn and "overturned" not in turn:
        line += f" | then asked: {one_line(turn['next_question'], ASKED_CHARS)}"
    if outcome.files:
        changed = (path.removeprefix(turn["project"]).lstrip("/") for path in outcome.files)
        line += f" | changed: {one_line(', '.join(changed), ASKED_CHARS)}"
    if outcome.failed and not outcome.passed:
        line += f" | failed: {one_line(outcome.failed, LABEL_CHARS)}"
    return line


def _found(turn: Mapping[str, Any], conclusion: str) -> str:
    """Return the sentences that tell most, else the conclusion."""
    if texts := _unshown(turn.get("telling") or [turn["passage"]], "", room=LATER_CHARS, most=MORE):
        return f" | found: {texts}"
    return f" | answer: {one_line(conclusion, LATER_CHARS)}" if conclusion else ""


def _found_and_concluded(turn: Mapping[str, Any], conclusion: str) -> str:
    """Return the passage found and what the turn concluded, each if it is neither in the other nor in the question."""
    passage = plain(turn.get("excerpt") or turn["passage"])
    conclusion = plain(conclusion)
    if conclusion and is_announcement(passage):
        passage = ""
    best, shown = plain(turn["passage"]), letters(conclusion[:PASSAGE_CHARS])
    of_best, of_excerpt = (letters(one_line(text, SAME_CHARS)) for text in (best, passage))
    if of_best not in letters(passage):
        of_best = of_excerpt
    if of_best in letters(turn["user_question"]) or of_best in shown:
        passage = ""
    elif of_excerpt in shown:
        passage = passage[max(passage.find(best[:SAME_CHARS]), 0) :]
    elif letters(one_line(conclusion, SAME_CHARS)) in letters(one_line(passage, BOTH_CHARS)):
        conclusion = ""
    room = BOTH_CHARS if passage and conclusion else PASSAGE_CHARS
    named = (("found", passage), ("answer", conclusion))
    return "".join(f" | {name}: {one_line(text, room)}" for name, text in named if text)


def _more(turn: Mapping[str, Any], line: str) -> str:
    """Return sentences that tell much, which neither the line nor the question in it shows, as far as there is room."""
    shown = one_line(turn["user_question"], ASKED_CHARS) + line
    texts = _unshown(turn.get("telling", ()), shown, room=TELLING_CHARS - len(line), most=MORE)
    return f" | {'also' if line else 'found'}: {texts}" if texts else ""


def _unshown(sentences: Sequence[str], text: str, *, room: int, most: int) -> str:
    """Return the first sentences that neither begin nor end like what the text shows, as far as there is room."""
    shown, texts = letters(text), list[str]()
    for sentence in sentences:
        of_sentence = letters(sentence)
        is_shown = of_sentence[:SAME_CHARS] in shown or (texts and of_sentence[-SAME_CHARS:] in shown)
        if len(texts) < most and room >= LEAST_MORE_CHARS and not is_shown:
            texts.append(one_line(sentence, room))
            room -= len(texts[-1])
            shown += of_sentence
    return " … ".join(texts)


def _overturned(turn: Mapping[str, Any]) -> str:
    """Return the sentence of a later turn that decides otherwise, with its link."""
    later = turn.get("overturned")
    if not later:
        return ""
    quote = one_line(later["quote"], LINE_CHARS)
    return f" | **turn {later['turn_number']} says otherwise**: {markdown_link(quote, later['url'], LINE_CHARS)}"


def markdown_link(title: str, url: str, chars: int = LABEL_CHARS) -> str:
    """Return a link in Markdown, whose title cannot end it."""
    return f"[{one_line(title, chars).translate(_NO_BRACKETS)}]({url})"


SEARCH = Tool(
    name="search",
    description=(
        "Search everything the user and their AI agents said and did before: your long-term memory. "
        "Use it before you answer about earlier work ('how did we fix…', 'what did we decide'), before "
        "you choose an approach; not for what you see already. "
        "Good query: 'why did the nightly backup stop working'. Bad: 'backup nightly'."
    ),
    input_model=ShortSearchInput,
    output_model=ConversationSearchOutput,
    function=short_search,
    as_text=search_as_text,
)


class SearchChatHistoryInput(SearchInput):
    query: Annotated[
        str, Field(min_length=1, max_length=MAX_QUERY_CHARS, description="a full question"), AfterValidator(storable)
    ]
    limit: Annotated[int, Field(ge=1, le=20, description="snippets at most")] = 5


class Snippet(BaseModel):
    conversationId: int
    turnNumber: int
    snippet: str
    score: Annotated[float, Field(description="cosine distance, lower is closer")] | Optional = None
    mark: str | Optional = None


class SearchChatHistoryOutput(SearchOutput):
    results: list[Snippet]
    totalFound: int
    query: str


def search_chat_history(caller: Caller | None, arguments: SearchChatHistoryInput) -> SearchChatHistoryOutput:
    """Return snippets of the caller's turns, closest first; report errors in `note` and raise none."""
    if caller is None:
        nobody = Explanation(Reason.NO_CALLER)
        return _nothing(arguments.query, nobody.for_tools, nobody.reason)
    if not arguments.query.strip():
        return _nothing(arguments.query, "the query is blank: ask a question")
    try:
        query = SearchQuery(
            text=arguments.query,
            limit=arguments.limit,
            mode="semantic",
            scope=arguments.kinds,
            filters=arguments.filters,
            min_chars=1,
            by_distance=True,
            may_rerank=False,
            compares_later=False,
        )
        results = search(caller=caller.alone(), query=query)
    except ConvMemoryError as error:
        return _nothing(arguments.query, str(error))
    # The boundary of this tool, whose format promises an answer for every error.
    except Exception:
        logger.exception("search_chat_history failed")
        return _nothing(arguments.query, "the search failed; the server's log says why")
    return SearchChatHistoryOutput(
        results=[
            Snippet(
                conversationId=hit.object_id,
                turnNumber=hit.number,
                snippet=hit.heading[:SNIPPET_CHARS],
                score=None if hit.similarity is None else round(1 - hit.similarity, 4),
                mark=str(hit.turn.mark) if hit.turn.mark else None,
            )
            for hit in results.hits
        ],
        totalFound=results.total,
        query=arguments.query,
        note=" ".join(results.notes) or None,
        reason=results.reason,
        pending=results.pending or None,
    )


def _nothing(query: str, note: str, reason: Reason | None = None) -> SearchChatHistoryOutput:
    return SearchChatHistoryOutput(results=[], totalFound=0, query=query, note=note, reason=reason)


def _refused(arguments: object, reason: str) -> SearchChatHistoryOutput:
    """Return the answer to invalid arguments: no results, and the reason."""
    query = arguments.get("query") if isinstance(arguments, dict) else None
    return _nothing(storable(query)[:MAX_QUERY_CHARS] if isinstance(query, str) else "", reason)


SEARCH_CHAT_HISTORY = Tool(
    name="search_chat_history",
    description=(
        "The past turns nearest in meaning, as snippets of their questions. Use it to see whether something came up; "
        "for what was said use ConversationSearch. Good query: 'how do I renew the certificate'. Bad: 'certificate'."
    ),
    input_model=SearchChatHistoryInput,
    output_model=SearchChatHistoryOutput,
    function=search_chat_history,
    refuse=_refused,
)
