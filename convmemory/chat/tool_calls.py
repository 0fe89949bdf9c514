"""Runs the tools that a model calls, as the conversation's owner. Each failure becomes a result that describes it.

Results share the space left in the model's window: a long one is cut, with a note that says so.
"""

import asyncio
import json
import logging
from dataclasses import dataclass

from django.contrib.auth.models import User

from convmemory.chat.citations import with_citations
from convmemory.chat.deltas import FinishedCall
from convmemory.conversations.parts import ToolResultPart
from convmemory.core.errors import ConvMemoryError
from convmemory.core.threads import in_tool_thread
from convmemory.core.tokens import count_tokens, cut_to_tokens
from convmemory.tools.registry import NOTHING_SEEN, Seen, run_tool

TIMEOUT_S = 60.0
MIN_ROOM = 512
CUT = "\n[… cut: the rest does not fit the model's window]"

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ResultBudget:
    """The tokens left for results. A single result takes half of them at most, so that a further one fits."""

    tokens: int
    encoding: str

    @property
    def is_used_up(self) -> bool:
        return self.tokens < MIN_ROOM

    def fit(self, text: str) -> str:
        """Cut the text to its share of the remaining tokens, and use those up."""
        fitting = cut_to_tokens(text, max(self.tokens // 2, 0), encoding=self.encoding)
        if len(fitting) < len(text):
            fitting += CUT
        self.tokens -= count_tokens(fitting, encoding=self.encoding)
        return fitting


async def answer_call(
    call: FinishedCall,
    *,
    caller: User,
    allowed: tuple[str, ...],
    budget: ResultBudget,
    seen: Seen = NOTHING_SEEN,
    first_citation: int = 1,
) -> ToolResultPart:
    """Return the result of one call; `seen` are the messages in the model's context and the documents that it may
    search.

    Its results can be cited by numbers from `first_citation` on.
    """
    text, is_error = await _run(call, caller, allowed, seen, first_citation)
    fitting = await asyncio.to_thread(budget.fit, text)
    return ToolResultPart(call_id=call.part.id, name=call.part.name, text=fitting, is_error=is_error)


async def _run(
    call: FinishedCall, caller: User, allowed: tuple[str, ...], seen: Seen, first_citation: int
) -> tuple[str, bool]:
    name = call.part.name
    if name not in allowed:
        return f"There is no tool {name!r} here: use {', '.join(allowed) or 'none'}.", True
    if call.error:
        return f"{call.error} Call {name} again with arguments as its schema says.", True
    try:
        async with asyncio.timeout(TIMEOUT_S):
            answer = await in_tool_thread(run_tool, name, call.part.input, caller, seen=seen)
    except ConvMemoryError as error:
        return str(error), True
    except TimeoutError:
        return f"{name} gave no answer within {TIMEOUT_S:g} s.", True
    except Exception:  # a tool's boundary: the model gets a short text, the log the details
        logger.exception("The tool %s failed", name)
        return f"{name} failed: an error inside the server.", True
    return json.dumps(with_citations(answer, first=first_citation), ensure_ascii=False), False
