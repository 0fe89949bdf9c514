"""Synthetic archives for benchmarks: words drawn by Zipf's law, vectors drawn at random.

Rows are written straight into the tables that search reads, because embedding a million passages
would take hours and the speed of search does not depend on what the vectors mean.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
from django.contrib.auth.models import User
from django.utils import timezone

from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.models import Conversation
from convmemory.conversations.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.embeddings.models import EmbeddingSpace
from search.models import ConversationIndex, TurnDocument, TurnEmbedding
from search.texts import TurnTexts

VOCABULARY = 20_000
TURNS_PER_CONVERSATION = 20
SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "zu", "qui")


def vocabulary(size: int = VOCABULARY) -> list[str]:
    """Pronounceable made-up words, the same every time; the first are the frequent ones."""
    base = len(SYLLABLES)
    return [
        "".join(SYLLABLES[(n // base**i) % base] for i in range(4 if n >= base**3 else 3)) + "k" for n in range(size)
    ]


class TextMaker:
    """Sentences with word frequencies by Zipf's law, repeatable from a seed."""

    def __init__(self, seed: int = 1) -> None:
        self.words = vocabulary()
        self.cumulative = list(np.cumsum(1.0 / np.arange(1, len(self.words) + 1)))
        self.random = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def text(self, words: int) -> str:
        return " ".join(self.random.choices(self.words, cum_weights=self.cumulative, k=words)) + "."

    def question(self) -> str:
        """A query of five words, two of them rare."""
        rare = self.random.choices(self.words[500:], k=2)
        return " ".join([*rare, *self.text(3)[:-1].split()])


def messages(count: int, maker: TextMaker) -> Iterator[MessageDraft]:
    """A coding agent's messages: question, tool call, tool output, answer."""
    for number in range(0, count, 4):
        yield MessageDraft("user", (TextPart(maker.text(15)),), source_key=f"{number}")
        call = ToolCallPart(f"t{number}", "Bash", {"command": maker.text(6)})
        yield MessageDraft("assistant", (TextPart(maker.text(12)), call), source_key=f"{number + 1}")
        result = ToolResultPart(f"t{number}", maker.text(60))
        yield MessageDraft("user", (result,), source_key=f"{number + 2}")
        yield MessageDraft("assistant", (TextPart(maker.text(50)),), source_key=f"{number + 3}")


def fill_turns(*, owner: User, space: EmbeddingSpace, turns: int, maker: TextMaker, seed: int = 1) -> None:
    """Give `owner` this many indexed turns, twenty to a conversation, with random vectors."""
    from search.indexing import store_documents

    generator = np.random.default_rng(seed)
    now = timezone.now()
    for first in range(0, turns, TURNS_PER_CONVERSATION):
        count = min(TURNS_PER_CONVERSATION, turns - first)
        conversation = Conversation.objects.create(
            owner=owner,
            title=maker.text(4),
            source="synthetic",
            source_id=f"{owner.pk}-{first}",
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            updated_at=now,
            turn_count=count,
            turns_version=1,
        )
        texts = {number: _turn(number, maker) for number in range(count)}
        store_documents(conversation, texts)
        vectors = generator.standard_normal((count, space.dimensions), dtype=np.float32)
        TurnEmbedding.objects.bulk_create(
            TurnEmbedding(
                owner=owner,
                conversation=conversation,
                space=space,
                turn_number=number,
                content_hash=texts[number].content_hash,
                token_count=80,
                embedding=vectors[number],
            )
            for number in range(count)
        )
        ConversationIndex.objects.create(
            conversation=conversation, owner=owner, space=space, indexed_version=1, noted_version=1
        )
    assert TurnDocument.objects.filter(owner=owner).count() >= turns


def _turn(number: int, maker: TextMaker) -> TurnTexts:
    question, answer = maker.text(15), maker.text(60)
    lexical = {"A": question, "B": answer, "C": maker.text(20), "D": maker.text(60)}
    return TurnTexts(
        message_id=number, question=question, created_at=None, embedded=f"{question}\n{answer}", lexical=lexical
    )
