"""The optional last stage of a search: a reranker reads the question and the best turns, and changes their order.

Its score is added to the fused one with the reranker's own weight (`blending.py`); with weight 0 it is not called.

Only the first page calls it. Its order travels in the cursor, so that later pages neither call it again nor repeat or
lose a hit, whatever happens to the endpoint. If it gives no order, the fused one stays, and a note says so.
"""

import asyncio
import json
import logging
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

import numpy as np

from convmemory.core.config import config
from convmemory.core.errors import RerankerUnavailable, ResponseRefused
from convmemory.core.measuring import timed
from convmemory.core.text import masked, one_line, storable
from search.models import RerankerWeight
from search.query import SearchQuery
from search.ranking.blending import UNFITTED_WEIGHT, WeightFit, as_scores, blended_order
from search.results.hits import Hit

TEI = "tei"
# A longer answer is not used (ADR 20).
MAX_ANSWER_BYTES = 1_000_000
NAME_CHARS = 300

_REMEDIES: Mapping[int, str] = {
    400: "it does not take the request: check RERANK_SHAPE, RERANK_MODEL and RERANK_TOP_K",
    401: "the key is wrong or missing: set RERANK_API_KEY",
    403: "the key may not use this model: check RERANK_API_KEY and RERANK_MODEL",
    404: "no such model or address: check RERANK_MODEL and RERANK_URL, which usually ends in /rerank",
    405: "check RERANK_URL, which usually ends in /rerank",
    413: "the request is too large: lower RERANK_TOP_K",
    422: "it does not take the request: check RERANK_SHAPE, RERANK_MODEL and RERANK_TOP_K",
    424: "its model is not a reranker",
    429: "too many requests, or the account's quota is used up: try later or check the account",
}


# Two request formats are supported: Cohere's, which Jina, vLLM, llama.cpp and LiteLLM share, and that of Text
# Embeddings Inference (TEI). An endpoint's error messages are never repeated: they may quote the key or texts of users.
# Source: https://docs.cohere.com/reference/rerank, https://huggingface.github.io/text-embeddings-inference/
@dataclass(frozen=True, slots=True)
class RerankOptions:
    """The endpoint, its request format, its total time limit, and the number of best turns that it receives."""

    url: str
    api_key: str = field(repr=False)
    model: str
    shape: str
    timeout_s: float
    top_k: int

    @classmethod
    def from_settings(cls) -> "RerankOptions | None":
        """The current values in `convmemory.settings`; None if no endpoint is set up."""
        if not config.rerank_url:
            return None
        return cls(
            url=config.rerank_url,
            api_key=config.rerank_api_key,
            model=config.rerank_model,
            shape=config.rerank_shape,
            timeout_s=config.rerank_timeout_s,
            top_k=config.rerank_top_k,
        )

    @property
    def name(self) -> str:
        """Return the name of this reranker: its model, or its URL without secrets."""
        return (self.model or masked(self.url))[:NAME_CHARS]

    @property
    def where(self) -> str:
        """Describe the endpoint for messages, without its address, which can be internal: people see them."""
        return f"The rerank endpoint (model {self.model})" if self.model else "The rerank endpoint"


def rerank(options: RerankOptions, *, query: str, documents: Sequence[str]) -> list[float]:
    """Return how well each of `documents` answers `query`, in their order, on any scale; one request, no retry.

    Raises: RerankerUnavailable if the scores do not arrive within `timeout_s`, name resolution included.
    """
    import httpx2

    body = json.dumps(_request(options, storable(query), [storable(text) for text in documents])).encode()
    with _opening:  # the client of this process begins with the first request: loading the certificates takes a while
        if not _opened or not _opened[-1].is_alive:
            _opened[:] = [_Asker()]
        asker = _opened[-1]
    try:
        status, content = asker.ask(options, body)
    except TimeoutError:
        raise RerankerUnavailable(
            f"{options.where} gave no answer in {options.timeout_s:g} s: raise RERANK_TIMEOUT_S, or lower RERANK_TOP_K."
        ) from None
    except ResponseRefused as error:
        raise RerankerUnavailable(str(error)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError):  # not chained: the message may quote the key
        raise RerankerUnavailable(
            f"{options.where} cannot be reached or breaks off: check RERANK_URL and the network."
        ) from None
    if status != HTTPStatus.OK:
        remedy = _REMEDIES.get(status, "try later")
        raise RerankerUnavailable(f"{options.where} answered {status}: {remedy}.")
    scores = _scores(content, len(documents))
    if scores is None:
        raise RerankerUnavailable(
            f"{options.where} does not answer with a score for each text: check RERANK_SHAPE and RERANK_URL, "
            "which usually ends in /rerank."
        )
    return scores


def _request(options: RerankOptions, query: str, documents: list[str]) -> dict[str, Any]:
    if options.shape == TEI:
        return {"query": query, "texts": documents, "truncate": True}
    model = {"model": options.model} if options.model else {}
    return {**model, "query": query, "documents": documents, "top_n": len(documents)}


def _scores(content: bytes, count: int) -> list[float] | None:
    """Return the scores in the order of the texts; None unless each of the `count` texts has one score."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return None
    rows = answer.get("results") if isinstance(answer, dict) else answer
    if not isinstance(rows, list) or len(rows) != count:
        return None
    scores = dict(_scored(row) for row in rows)
    if scores.keys() != set(range(count)) or not all(map(math.isfinite, scores.values())):
        return None
    return [scores[index] for index in range(count)]


def _scored(row: object) -> tuple[int, float]:
    """Return index and score of one result; for a malformed one, an index of -1 or a score that is not a number."""
    if not isinstance(row, dict):
        return -1, math.nan
    index, score = row.get("index"), row.get("relevance_score", row.get("score"))
    if type(index) is not int or not isinstance(score, (int, float)) or isinstance(score, bool):
        return -1, math.nan
    try:
        return index, float(score)
    except OverflowError:
        return index, math.nan


class _Asker:
    """One HTTP client in the event loop of its own thread.

    A client's time limit applies to each read, so that an endpoint which sends a byte now and then would never time
    out; a coroutine can be cancelled wherever it waits.
    """

    def __init__(self) -> None:
        from convmemory.core.endpoints.http import AsyncEndpointClient

        self._client = AsyncEndpointClient(timeout=None)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rerank", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Return whether the thread runs: it does not in a process that was forked."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Close the connections and end the thread."""
        asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def ask(self, options: RerankOptions, body: bytes) -> tuple[int, bytes]:
        """Send the request; return the status of the answer, and its content if that is 200.

        Raises: TimeoutError, and whatever the client raises.
        """
        asking = asyncio.run_coroutine_threadsafe(self._ask(options, body), self._loop)
        try:
            return asking.result(options.timeout_s)
        finally:
            asking.cancel()  # closes the connection if the time is up

    async def _ask(self, options: RerankOptions, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
        async with self._client.stream("POST", options.url, content=body, headers=headers) as response:
            if response.status_code != HTTPStatus.OK:
                return response.status_code, b""
            received = bytearray()
            async for piece in response.aiter_raw():
                received += piece
                if len(received) > MAX_ANSWER_BYTES:
                    break  # an answer that is cut here is invalid JSON
            return response.status_code, bytes(received)


_opening = threading.Lock()
_opened: list[_Asker] = []


def close_connections() -> None:
    """Close this process's connections; the next request opens them again."""
    with _opening:
        while _opened:
            _opened.pop().close()


NAME = "reranker"  # in the list of a hit's matches
# Together about 1,000 characters per hit, what the results page shows of it (ADR 20).
QUESTION_CHARS = 600
PASSAGE_CHARS = 400

logger = logging.getLogger(__name__)


def place_hits(
    query: SearchQuery, hits: Sequence[Hit], options: RerankOptions
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Ask the reranker about the best hits, in the fused order; never raises. One query and one HTTP request.

    Returns the keys of the items that it placed, best first; if none, notes that say why.
    """
    best = hits[: options.top_k]
    if len(best) < 2 or not (weight := weight_of(options)):
        return (), ()
    try:
        with timed("rerank", items=len(best)):
            scores = rerank(options, query=query.parsed.text, documents=[document_of(hit) for hit in best])
    except RerankerUnavailable as error:
        logger.warning("Not reranked: %s", error)
        return (), (f"Not reranked: {error}",)
    fused = np.array([hit.score for hit in best], np.float32)
    order = blended_order(fused, as_scores(scores), weight)
    return tuple(best[index].key for index in order), ()


def document_of(hit: Hit) -> str:
    """Return the text of a turn for the reranker: its question and its best passage, cut to a bounded length."""
    question = one_line(hit.heading, QUESTION_CHARS)
    passage = one_line(hit.passage, PASSAGE_CHARS)
    return question if passage in question else f"{question}\n{passage}"


def mark_reranked(hits: Sequence[Hit], placed: Sequence[int]) -> list[Hit]:
    """Return the hits; those that the reranker placed list it among their matches."""
    keys = set(placed)
    return [replace(hit, matched=(*hit.matched, NAME)) if hit.key in keys else hit for hit in hits]


def weight_of(options: RerankOptions) -> float:
    """Return the fitted weight of this reranker, or the default weight if it was never fitted. One query."""
    weight = RerankerWeight.objects.filter(name=options.name).values_list("weight", flat=True).first()
    return UNFITTED_WEIGHT if weight is None else weight


def keep_weight(options: RerankOptions, fit: WeightFit) -> None:
    """Store the fitted weight of this reranker for all searches."""
    values = {"weight": fit.weight, "questions": fit.questions, "gain": fit.after - fit.before}
    RerankerWeight.objects.update_or_create(name=options.name, defaults=values)
