"""Finds the sentences of a range and their vectors, and computes vectors for text that is not indexed yet.

Only prose of users and assistants counts: no thinking, no tool output, no code, no fragments.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convmemory.conversations.messages.parts import part_text, speaker_of
from convmemory.conversations.models import Message
from convmemory.conversations.reading import with_home_turns
from convmemory.core.errors import EmbeddingError
from convmemory.embeddings.embedder import Vector, embed_each, unit_rows
from convmemory.embeddings.spaces import active_space, embedder_for
from search.adapters.conversations import KIND, split_message
from search.models import PassageBlock
from search.vectors.codes import decoded, rotated_back
from search.vectors.packing import ITEMS_PER_BLOCK, read_passages
from summaries.transcript import RangeMessage

MIN_WORDS = 5
MIN_CHARS = 30
_CODE = re.compile(r"^[^\S\n]*+(```|~~~|\|)|[{};][^\S\n]*+$", re.M)
_WORD = re.compile(r"\w+")

SentencePlace = tuple[int, int, int, int]  # message id, part index, start, end


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a message."""

    message: RangeMessage
    place: SentencePlace
    text: str

    @property
    def speaker(self) -> str:
        return speaker_of(self.message.role, self.message.name)


def spoken_sentences(messages: Sequence[RangeMessage]) -> list[Sentence]:
    """Return the sentences of users and assistants, in order."""
    sentences = []
    for message in messages:
        spans = split_message(
            message.parts, is_real_user=message.is_real_user, is_assistant=message.role == "assistant"
        )
        for span in spans:
            text = part_text(message.parts[span.part_index])[span.start : span.end]
            if (
                span.kind in ("user", "assistant")
                and len(text) >= MIN_CHARS
                and len(_WORD.findall(text)) >= MIN_WORDS
                and not _CODE.search(text)
            ):
                span_key = (message.message_id, span.part_index, span.start, span.end)
                sentences.append(Sentence(message, span_key, " ".join(text.split())))
    return sentences


def sentence_vectors(sentences: Sequence[Sentence], *, archive_id: int) -> tuple[list[Sentence], Vector]:
    """Return the sentences that have a vector, and the vectors (n, dim) of unit length.

    Raises: EmbedderUnavailable if vectors must be computed and the model is unavailable.
    """
    space = active_space()
    # The stored vectors of passages that equal these sentences, by place. Two queries.
    message_ids = {sentence.message.message_id for sentence in sentences}
    messages = with_home_turns(Message.objects.filter(archive_id=archive_id, pk__in=message_ids))
    turns = list(messages.values_list("conversation_id", "home_turn"))
    blocks = PassageBlock.objects.filter(
        archive_id=archive_id,
        space=space,
        is_kept=False,
        source__kind=KIND,
        source__object_id__in={conversation for conversation, _ in turns},
        number__in={turn // ITEMS_PER_BLOCK for _, turn in turns if turn is not None},
    )
    passages = read_passages(blocks, space)
    inside = np.isin(passages.entries["element"], list(message_ids))
    inside &= np.isin(passages.entries["kind"], (PassageBlock.Kind.USER, PassageBlock.Kind.ASSISTANT))
    codes = {(one.element_id, one.part_index, one.start, one.end): one.code for one in passages.chosen(inside)}
    by_place = dict(
        zip(codes, unit_rows(rotated_back(decoded(b"".join(codes.values()), space.dimensions))), strict=True)
    )
    missing = [sentence for sentence in sentences if sentence.place not in by_place]
    texts = [f"{sentence.speaker}: {sentence.text}" for sentence in missing]
    for sentence, result in zip(missing, embed_each(embedder_for(space), texts) if texts else [], strict=True):
        if not isinstance(result, EmbeddingError):
            by_place[sentence.place] = result
    kept = [sentence for sentence in sentences if sentence.place in by_place]
    vectors = np.array([by_place[sentence.place] for sentence in kept], np.float32)
    return kept, vectors.reshape(len(kept), space.dimensions)
