"""Summaries by a language model: one request if the range fits the window, otherwise map and reduce.

Knows nothing of the database. Finished pieces are passed to `keep`, so that interrupted work continues where it was.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from convmemory.core.completions import Endpoint, complete, make_client
from convmemory.core.errors import EndpointRefused
from convmemory.core.text import content_hash
from convmemory.core.tokens import count_tokens, cut_to_tokens
from summaries.prompts import merge_messages, part_messages
from summaries.transcript import pieces

MAX_SHARE = 4  # a summary takes a quarter of the window at most
PROMPT_TOKENS = 600  # the instructions around the material, generously
MIN_PIECE_TOKENS = 200
MAX_ROUNDS = 8

Request = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Written:
    """A finished summary."""

    text: str
    model: str
    token_count: int


Metered = Callable[[int], AbstractContextManager[Callable[[int], object]]]


def unmetered(tokens: int) -> AbstractContextManager[Callable[[int], object]]:
    """Counts nothing."""
    return nullcontext(lambda used: None)


@dataclass(frozen=True, slots=True)
class SummaryProgress:
    """Where finished pieces are found and stored, by content, and whether there is time for another one.

    Each request runs inside `metered(maximum cost in tokens)`, which is given the actual cost.
    """

    done: dict[str, str]
    keep: Callable[[str, str], None]
    may_go_on: Callable[[], bool]
    metered: Metered = unmetered


def write_summary(
    endpoint: Endpoint, texts: Sequence[str], *, max_tokens: int, progress: SummaryProgress
) -> Written | None:
    """A summary of the texts, of at most about `max_tokens` tokens; None if time ran out before the end.

    Raises: EndpointBusy, EndpointRefused, EndpointMisconfigured, EndpointUnavailable; what `metered` raises.
    """
    writer = _Writer(endpoint, min(max_tokens, endpoint.context_window // MAX_SHARE), progress)
    return writer.write(texts)


class _Writer:
    def __init__(self, endpoint: Endpoint, max_tokens: int, progress: SummaryProgress) -> None:
        self._endpoint = endpoint
        self._max_tokens = max_tokens
        self._progress = progress
        self._count = partial(count_tokens, encoding=endpoint.encoding)
        # A tenth is left free: the count is exact for OpenAI's models only.
        self._piece_tokens = endpoint.context_window * 9 // 10 - PROMPT_TOKENS - max_tokens
        if self._piece_tokens < MIN_PIECE_TOKENS:
            raise EndpointRefused(
                f"A window of {endpoint.context_window} tokens is too small to summarise in: raise CHAT_CONTEXT_WINDOW."
            )
        self._model = endpoint.model

    def write(self, texts: Sequence[str]) -> Written | None:
        parts = list(pieces(texts, max_tokens=self._piece_tokens, count_tokens=self._count))
        requests = [
            part_messages(text, number=number, count=len(parts), max_tokens=self._max_tokens)
            for number, text in enumerate(parts, start=1)
        ]
        for _ in range(MAX_ROUNDS):
            summaries = self._all(requests)
            if summaries is None:
                return None
            if len(summaries) == 1:
                return Written(summaries[0], self._model, self._count(summaries[0]))
            groups = pieces(summaries, max_tokens=self._piece_tokens, count_tokens=self._count)
            requests = [merge_messages(text, max_tokens=self._max_tokens) for text in groups]
        raise EndpointRefused(f"{self._endpoint.where} writes summaries as long as what they summarise.")

    def _all(self, requests: Sequence[Request]) -> list[str] | None:
        """The replies in order, reusing those already finished; None if time ran out."""
        replies = []
        for request in requests:
            key = content_hash(request[0]["content"] + request[1]["content"]).hex()
            reply = self._progress.done.get(key)
            if reply is None:
                if not self._progress.may_go_on():
                    return None
                reply = self._ask(request)
                self._progress.keep(key, reply)
            replies.append(reply)
        return replies

    def _ask(self, request: Request) -> str:
        """One reply; that of a model which ignores its limit is cut, so that merging ends."""
        asked = sum(self._count(message["content"]) for message in request)
        with self._progress.metered(asked + self._max_tokens) as note_cost, make_client(self._endpoint) as client:
            reply = complete(client, self._endpoint, messages=request, max_tokens=self._max_tokens)
            note_cost(reply.total_tokens or asked + self._count(reply.text))
        self._model = reply.model
        return cut_to_tokens(reply.text.strip(), self._max_tokens, encoding=self._endpoint.encoding)
