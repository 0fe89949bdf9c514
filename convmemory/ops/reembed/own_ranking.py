"""Ranks a sample of turns for questions with one model, in memory: by its vectors alone, and with words and MaxSim.

Nothing is stored, so that a model can be tried before any space is built. Words are ranked by BM25; the features are
min-max scaled and added with equal weights, because the fitted weights of search favour the model they were fitted
with.
"""

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from convmemory.embeddings.embedder import Embedder, TokenEmbedder, Vector
from convmemory.embeddings.token_codes import best_similarities, encode_vectors
from convmemory.ops.reembed.own_questions import OwnQuestion, OwnTurn

DEPTH = 20
RESCORED = 30
"""The number of turns that late interaction compares: those nearest by their best passage."""

K1, B = 1.5, 0.75  # the usual parameters of BM25
_WORD = re.compile(r"\w+")

Scores = NDArray[np.float32]
Measures = dict[str, float]


@dataclass(frozen=True, slots=True)
class OwnResult:
    """Measures of each question, in order, by ranking ("vectors", "fused"); and passages embedded per second."""

    vectors: list[Measures]
    fused: list[Measures]
    passages_per_second: float


@dataclass(slots=True)
class _Passages:
    """The passages of one side of all turns; those of turn i are `starts[i]` to `starts[i + 1]`."""

    vectors: Vector
    starts: list[int]
    codes: list[bytes] = field(default_factory=list)

    def best_by_turn(self, query: Vector) -> Scores:
        """Return the highest cosine of each turn, (turns,); -1 for a turn without a passage."""
        cosines = self.vectors @ query
        best = np.full(len(self.starts) - 1, -1, np.float32)
        for turn, (start, stop) in enumerate(zip(self.starts, self.starts[1:], strict=False)):
            if stop > start:
                best[turn] = cosines[start:stop].max()
        return best

    def tokens_of(self, turn: int) -> bytes:
        return b"".join(self.codes[self.starts[turn] : self.starts[turn + 1]])


def rank_own(
    turns: Sequence[OwnTurn], questions: Sequence[OwnQuestion], embedder: Embedder, words: "tuple[Bm25, Bm25]"
) -> OwnResult:
    """Rank the turns for each question with one model. `words` are those of the answers, and of all text."""
    started = time.perf_counter()
    answered = _embed([turn.answered for turn in turns], embedder)
    asked = _embed([turn.asked for turn in turns], embedder)
    rate = (len(answered.vectors) + len(asked.vectors)) / max(time.perf_counter() - started, 1e-9)
    result = OwnResult([], [], rate)
    for question in questions:
        sides = (answered,) if question.by_answers else (answered, asked)
        # The cosine of each turn's best passage, and MaxSim of the nearest turns (0 for the others). MaxSim is 0 for
        # all turns if the model gives no token vectors.
        late = np.zeros(len(sides[0].starts) - 1, np.float32)
        if not isinstance(embedder, TokenEmbedder):
            query = embedder.embed_query(question.text)
            cosines = np.maximum.reduce([side.best_by_turn(query) for side in sides])
        else:
            embedded = embedder.embed_query_tokens(question.text)
            cosines = np.maximum.reduce([side.best_by_turn(embedded.vector) for side in sides])
            for turn in np.argsort(-cosines, kind="stable")[:RESCORED].tolist():
                data = b"".join(side.tokens_of(turn) for side in sides)
                if data and len(embedded.token_vectors):
                    late[turn] = best_similarities(embedded.token_vectors, data, np.zeros(1, np.int64)).mean()
        lexical = words[0 if question.by_answers else 1].scores(question.text)
        result.vectors.append(_measure(question, cosines))
        result.fused.append(_measure(question, _scaled(cosines) + _scaled(lexical) + _scaled(late)))
    return result


def words_of(turns: Sequence[OwnTurn]) -> "tuple[Bm25, Bm25]":
    """Return the words of the answers, and of all text."""
    return (
        Bm25([" ".join(turn.answered) for turn in turns]),
        Bm25([" ".join((*turn.asked, *turn.answered)) for turn in turns]),
    )


def _count_words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


class Bm25:
    """BM25 scores. Source: Robertson and Zaragoza, 2009, The Probabilistic Relevance Framework: BM25 and Beyond."""

    def __init__(self, texts: Sequence[str], count_words: Callable[[str], Counter[str]] = _count_words) -> None:
        self._count_words = count_words
        counts = [count_words(text) for text in texts]
        lengths = np.array([count.total() for count in counts], np.float32)
        self._norms = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1.0))
        self._postings: dict[str, list[tuple[int, int]]] = {}
        for position, count in enumerate(counts):
            for word, times in count.items():
                self._postings.setdefault(word, []).append((position, times))

    def scores(self, query: str) -> Scores:
        scores = np.zeros(len(self._norms), np.float32)
        for word in self._count_words(query).keys() & self._postings.keys():
            postings = self._postings[word]
            places = np.array([position for position, _ in postings])
            times = np.array([count for _, count in postings], np.float32)
            rarity = math.log(1 + (len(scores) - len(postings) + 0.5) / (len(postings) + 0.5))
            scores[places] += rarity * times * (K1 + 1) / (times + self._norms[places])
        return scores


def _embed(texts: Sequence[Sequence[str]], embedder: Embedder) -> _Passages:
    flat = [text for each in texts for text in each]
    starts = [0, *np.cumsum([len(each) for each in texts]).tolist()]
    if not isinstance(embedder, TokenEmbedder):
        return _Passages(embedder.embed_passages(flat), starts)
    vectors, codes = np.zeros((len(flat), embedder.card.dimensions), np.float32), []
    for position, embedded in enumerate(embedder.embed_passages_with_tokens(flat)):
        vectors[position] = embedded.vector
        codes.append(encode_vectors(embedded.token_vectors))
    return _Passages(vectors, starts, codes)


def _scaled(scores: Scores) -> Scores:
    low, high = float(scores.min()), float(scores.max())
    return (scores - low) / (high - low) if high > low else np.zeros_like(scores)


def _measure(question: OwnQuestion, scores: Scores) -> Measures:
    """Return the measures of the first right turn among the first twenty that are not hidden."""
    order = np.argsort(-scores, kind="stable").tolist()
    shown = [turn for turn in order if turn not in question.hidden][:DEPTH]
    rank = next((rank for rank, turn in enumerate(shown, 1) if turn in question.gold), math.inf)
    return {"hit@1": float(rank <= 1), "hit@5": float(rank <= 5), "mrr": 1 / rank}
