"""Synthetic archives for benchmarks: words drawn by Zipf's law, vectors around common topics.

Vectors are copied straight into the tables that search reads, because embedding a million passages would take hours and
the speed of search does not depend on the meaning of vectors.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from uuid import uuid4

import numpy as np
from django.db import connection
from django.utils import timezone
from numpy.typing import NDArray

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation, Message
from convmemory.core.sql import load_sql
from convmemory.core.text import content_hash
from convmemory.embeddings import model_folder
from convmemory.embeddings.default_model import default_folder
from convmemory.embeddings.models import EmbeddingSpace
from search.adapters.conversations import facts_of, source_of
from search.indexing.documents import store_documents
from search.indexing.packing import pack_source
from search.indexing.tracking import put_source
from search.models import Source, SourceIndex
from search.query import SEARCHED_CHARS
from search.sources import Kind
from search.vectors.codes import encode
from search.vectors.packing import ITEMS_PER_BLOCK, Passages, StoredPassage, repack
from search.vectors.passages import KINDS
from search.vectors.texts import ItemTexts

VOCABULARY = 20_000
TURNS_PER_CONVERSATION = 20
PASSAGES_PER_TURN = 8
TOKENS_PER_PASSAGE = 20
# Vectors lie around common topics: independent ones would all be about equally far from a query.
TOPICS = 500
SPOKEN: tuple[Kind, Kind] = ("user", "assistant")
# The signature of PostgreSQL's binary COPY format, then flags and the length of an extension, both zero.
COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
COPY_END = b"\xff\xff"


@lru_cache(maxsize=1)
def vocabulary(size: int = VOCABULARY) -> tuple[str, ...]:
    """Return English words by falling frequency: those of the default model, whose vocabulary has that order."""
    path = model_folder.model_file(default_folder(), "tokenizer.json")
    numbers: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    words = [word for word in sorted(numbers, key=numbers.__getitem__) if word.isascii() and word.isalpha()]
    return tuple(word for word in words if len(word) > 1)[:size]


class TextMaker:
    """Generates sentences with Zipf-distributed word frequencies, reproducible from a seed."""

    def __init__(self, seed: int = 1) -> None:
        self.words = vocabulary()
        self.cumulative = list(np.cumsum(1.0 / np.arange(1, len(self.words) + 1)))
        self.random = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def text(self, words: int) -> str:
        return " ".join(self.random.choices(self.words, cum_weights=self.cumulative, k=words)) + "."

    def question(self, words: int = 8) -> str:
        """Return a typical query: most of its words are frequent, a quarter of them rare.

        At most 500 characters long.
        """
        rare = self.random.choices(self.words[500:], k=words // 4)
        asked = " ".join([*rare, *self.text(words - len(rare))[:-1].split()])
        return asked[:SEARCHED_CHARS].strip()


def messages(count: int, maker: TextMaker) -> Iterator[MessageDraft]:
    """Yield a coding agent's messages: question, tool call, tool output, answer."""
    for number in range(0, count, 4):
        yield MessageDraft("user", (TextPart(maker.text(15)),), source_key=f"{number}")
        call = ToolCallPart(f"t{number}", "Bash", {"command": maker.text(6)})
        yield MessageDraft("assistant", (TextPart(maker.text(12)), call), source_key=f"{number + 1}")
        result = ToolResultPart(f"t{number}", maker.text(60))
        yield MessageDraft("user", (result,), source_key=f"{number + 2}")
        yield MessageDraft("assistant", (TextPart(maker.text(50)),), source_key=f"{number + 3}")


@dataclass(frozen=True, slots=True)
class SyntheticPassage:
    """Forty characters of an element."""

    element_id: int
    item_number: int
    start: int
    kind: Kind


class VectorMaker:
    """Generates unit vectors around a fixed number of topics, distributed like the texts of an archive."""

    def __init__(self, dimensions: int, seed: int = 1) -> None:
        self.generator = np.random.default_rng(seed)
        self.topics = self.generator.standard_normal((TOPICS, dimensions), dtype=np.float32)

    def vectors(self, count: int) -> NDArray[np.float32]:
        noise = self.generator.standard_normal((count, self.topics.shape[1]), dtype=np.float32)
        vectors = self.topics[self.generator.integers(0, TOPICS, count)] + 0.9 * noise
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


@dataclass(frozen=True, slots=True)
class TurnShape:
    """The size of a synthetic turn: a question, and an answer of some words in one message or in several.

    Its passages are spread evenly over its messages; its own vector consists of some chunks.
    """

    passages: int = PASSAGES_PER_TURN
    answer_words: int = 60
    messages: int = 1
    chunks: int = 1


SHORT_TURN = TurnShape()
AGENTS_TURN = TurnShape(passages=24, answer_words=736, messages=24, chunks=6)
"""The shape of a coding agent's turn: many messages with few words each."""


def fill_turns(
    *,
    caller: Caller,
    space: EmbeddingSpace,
    turns: int,
    maker: TextMaker,
    vectors: VectorMaker,
    shape: TurnShape = SHORT_TURN,
) -> None:
    """Give `owner` this many indexed turns, twenty to a conversation."""
    for first in range(0, turns, TURNS_PER_CONVERSATION):
        count = min(TURNS_PER_CONVERSATION, turns - first)
        conversation = Conversation.objects.create(
            archive_id=caller.archive_id,
            title=maker.text(4),
            source="synthetic",
            source_id=f"{caller.archive_id}-{first}",
            agent=maker.random.choice("ab"),
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            updated_at=timezone.now(),
            turn_count=count,
            turns_version=1,
        )
        texts = [_texts(maker, shape) for _ in range(count)]
        stored = Message.objects.bulk_create(
            Message(
                archive_id=conversation.archive_id,
                conversation=conversation,
                position=number * shape.messages + offset,
                turn_number=number,
                role="assistant" if offset else "user",
                is_real_user=not offset,
                parts=[{"type": "text", "text": texts[number][offset]}],
                content_hash=content_hash(f"{number}-{offset}"),
            )
            for number in range(count)
            for offset in range(shape.messages)
        )
        documents = {}
        for number, of_turn in enumerate(texts):
            question, *answers = of_turn
            answer = " ".join(answers) or maker.text(shape.answer_words)
            lexical = {"A": question, "B": answer, "C": maker.text(20), "D": maker.text(40)}
            documents[number] = ItemTexts(number, question, None, f"{question}\n{answer}", lexical)
        spoken_length = sum(text.length for text in documents.values())
        put_source(facts_of(conversation), first_changed=None)
        source = source_of(archive_id=conversation.archive_id, conversation_id=conversation.pk)
        assert source is not None
        Source.objects.filter(pk=source.pk).update(spoken_length=spoken_length)
        store_documents(source, documents)
        per_message = shape.passages // shape.messages
        passages = [
            SyntheticPassage(message.pk, message.turn_number or 0, 0, SPOKEN[offset % 2])
            for message in stored
            for offset in range(per_message)
        ]
        store_vectors(source, space, passages, vectors, chunks=shape.chunks)
        pack_source(source)  # as a worker does soon after; until then each search reads the words of all turns


def _texts(maker: TextMaker, shape: TurnShape) -> list[str]:
    """Return the texts of a turn's messages, of which the first is the question.

    A turn of a single message has its answer in the index alone.
    """
    answers = shape.messages - 1
    return [maker.text(15), *(maker.text(shape.answer_words // answers) for _ in range(answers))]


def store_vectors(
    source: Source,
    space: EmbeddingSpace,
    passages: Sequence[SyntheticPassage],
    vectors: VectorMaker,
    *,
    chunks: int = 1,
) -> None:
    """Store vectors for all items of the source, some chunks each, and for these passages, and mark it as indexed."""
    parameters = {"owner": source.archive_id, "source": source.pk, "space": space.pk, "chunks": chunks}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("benchmarks.speeds", "synthetic_vectors"))
        _copy_vectors(cursor, vectors.vectors(source.item_count * chunks))
        cursor.execute(load_sql("benchmarks.speeds", "synthetic_items"), parameters)
    size = TOKENS_PER_PASSAGE * space.token_dimensions // 8
    random_bytes, codes = vectors.generator.bytes(size + 1_000), encode(vectors.vectors(len(passages)))
    packed = Passages.of(
        (
            StoredPassage(
                passage.element_id, passage.item_number, passage.start, passage.start + 40, 0, KINDS[passage.kind],
                asks=False, token_count=TOKENS_PER_PASSAGE, content_hash=uuid4(), code=code,
                tokens=random_bytes[at % 997 : at % 997 + size],
            )
            for at, (passage, code) in enumerate(zip(passages, codes, strict=True))
        ),
        space,
    )  # fmt: skip
    repack(source, space, packed, {item // ITEMS_PER_BLOCK for item in range(source.item_count)})
    SourceIndex.objects.create(
        source=source, archive_id=source.archive_id, space=space, indexed_version=1, seen_version=1,
        last_item=source.item_count - 1, passages=len(passages),
    )  # fmt: skip


def _copy_vectors(cursor: object, vectors: NDArray[np.float32]) -> None:
    """Send vectors (n, dim), numbered from 0, in PostgreSQL's binary format."""
    count, dimensions = vectors.shape
    fields: list[tuple[str, str] | tuple[str, str, int]] = [
        ("columns", ">i2"),
        ("number_size", ">i4"),
        ("number", ">i4"),
    ]
    fields += [("size", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"), ("vector", ">f2", dimensions)]
    rows = np.zeros(count, dtype=np.dtype(fields))
    rows["columns"], rows["number_size"], rows["number"] = 2, 4, np.arange(count)
    rows["size"], rows["dimensions"], rows["vector"] = 4 + 2 * dimensions, dimensions, vectors
    cursor.execute(load_sql("benchmarks.speeds", "empty_synthetic_vectors"))  # type: ignore[attr-defined]
    with cursor.copy(load_sql("benchmarks.speeds", "copy_synthetic_vectors")) as copy:  # type: ignore[attr-defined]
        copy.write(COPY_HEADER)
        copy.write(rows.tobytes())
        copy.write(COPY_END)
