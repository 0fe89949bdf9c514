"""Creates and stores the passages of items: splits them, looks up equal texts, embeds the rest.

Writes blocks of passages. If another passage of the same owner and space has the same text, its code and token vectors
are copied, so that the same text is embedded once. Vectors and token vectors come from one forward pass.
"""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TypeVar
from uuid import UUID

import numpy as np
from django.db import transaction

from convmemory.core.errors import EmbedderUnavailable, EmbeddingError
from convmemory.core.measuring import timed
from convmemory.core.text import content_hash
from convmemory.embeddings.cache import vectors_ahead
from convmemory.embeddings.embedder import TokenEmbedder, TokenEmbedding, Vector, embed_each
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import embedder_for, with_same_sentences
from convmemory.embeddings.token_codes import encode_vectors
from convmemory.embeddings.token_model import PairedEmbedder
from search.index_signals import elements_embedded
from search.models import PassageBlock, Source
from search.sources import Element, ElementPart, ItemText, Kind
from search.vectors.codes import encode
from search.vectors.equal_texts import equal_passages
from search.vectors.item_vectors import store_item_vectors
from search.vectors.locking import lock_vectors
from search.vectors.packing import (
    ITEMS_PER_BLOCK,
    Passages,
    StoredPassage,
    current_blocks_of,
    keep,
    numbers_with,
    read_passages,
    repack,
)
from search.vectors.splitting import PassageSpan, split_parts
from search.vectors.texts import is_asking, passage_text


@dataclass(frozen=True, slots=True)
class PassageDraft:
    """A passage before it has a vector. `text` is embedded: the speaker, then the span."""

    element: Element
    span: PassageSpan
    text: str
    digest: UUID = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", passage_hash(self.text))

    @property
    def part(self) -> ElementPart:
        return next(part for part in self.element.parts if part.index == self.span.part_index)

    @property
    def asks(self) -> bool:
        return is_asking(self.span.kind, self.part.text[self.span.start : self.span.end])


def passage_hash(text: str) -> UUID:
    """Return the first 16 bytes of the text's SHA-256 as a UUID."""
    return UUID(bytes=content_hash(text)[:16])


def draft_passages(elements: Iterable[Element]) -> Iterator[PassageDraft]:
    """Yield the passages of some elements, in order."""
    for element in elements:
        parts = {part.index: part for part in element.parts}
        for span in split_parts(element.parts):
            yield PassageDraft(element, span, passage_text(element, parts[span.part_index], span.start, span.end))


KINDS: dict[Kind, int] = {
    "user": PassageBlock.Kind.USER,
    "assistant": PassageBlock.Kind.ASSISTANT,
    "thinking": PassageBlock.Kind.THINKING,
    "tool": PassageBlock.Kind.TOOL,
    "call": PassageBlock.Kind.CALL,
    "document": PassageBlock.Kind.DOCUMENT,
    "system": PassageBlock.Kind.SYSTEM,
    "outside": PassageBlock.Kind.OUTSIDE,
}


# Passages of one huge element are computed and stored this many at a time, so that each slice leaves something for the
# next one (ADR 24).
AHEAD = 256


@dataclass(frozen=True, slots=True)
class Embedded:
    """The code of a passage's vector, its token count, and its coded token vectors, b"" without any."""

    code: bytes
    token_count: int
    tokens: bytes


@dataclass(frozen=True, slots=True)
class TextsToEmbed:
    """Texts of one owner, by hash, that a space lacks."""

    archive_id: int
    space: EmbeddingSpace
    texts: Mapping[UUID, str]


Answer = Mapping[UUID, Embedded | EmbeddingError]
"""The embedding of each text of a request, or the reason why the model refused it."""

T = TypeVar("T")
EmbeddingSteps = Generator[TextsToEmbed, Answer, T]
"""Work that stops where it needs embeddings, outside any transaction, so that several can share a call of the model."""


def run_alone(steps: EmbeddingSteps[T]) -> T:
    """Run the steps to their end, embedding what they request. Raises: EmbedderUnavailable."""
    try:
        request = next(steps)
        while True:
            try:
                answer = embed(request)
            except EmbedderUnavailable as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


@dataclass(frozen=True, slots=True)
class StoredAhead:
    """The result of storing passages ahead: whether all of them are stored, and how many were computed."""

    finished: bool
    computed: int


def store_passages(
    source: Source,
    space: EmbeddingSpace,
    items: Sequence[ItemText],
    hashes: Mapping[int, bytes],
    drafts: Sequence[PassageDraft],
) -> EmbeddingSteps[tuple[int, dict[int, str]]]:
    """Replace the passages and the vectors of these items, and announce the outcome for each element, in one
    transaction; return the number of passages computed, and the errors of failed items.

    `hashes` are the items' content hashes by number, `drafts` their passages. Raises: EmbedderUnavailable if texts must
    be computed and the model is unavailable; that is announced too.
    """
    elements = [element for item in items for element in item.elements]
    numbers = [item.number for item in items]
    item_of = {element.element_id: element.item_number for element in elements}

    def store_vectors(stored: Mapping[UUID, Embedded], failed: Collection[int]) -> None:
        without = {item_of[element_id] for element_id in failed}
        spoken: dict[int, list[tuple[int, bytes]]] = {number: [] for number in numbers if number not in without}
        for draft in drafts:
            if draft.element.item_number in spoken and draft.part.in_vector:
                embedded = stored[draft.digest]
                spoken[draft.element.item_number].append((max(embedded.token_count, 1), embedded.code))
        store_item_vectors(source, space, hashes, spoken)

    computed, errors = yield from _replace(source, space, elements, drafts, numbers, store_vectors)
    return computed, {item_of[element_id]: error for element_id, error in errors.items()}


def store_element_passages(source: Source, space: EmbeddingSpace, elements: Sequence[Element]) -> dict[int, str]:
    """Replace the passages of these elements alone, like `store_passages`; return the errors of failed ones."""
    return run_alone(_replace(source, space, elements, list(draft_passages(elements))))[1]


def store_ahead(
    source: Source, space: EmbeddingSpace, passages: Iterable[PassageDraft], *, out_of_time: Callable[[], bool]
) -> EmbeddingSteps[StoredAhead]:
    """Store all but the last of many new `passages`, some at a time, without replacing existing ones.

    `store_passages` then finds their vectors, so that even one huge element can be embedded in several runs. Raises:
    EmbedderUnavailable.
    """
    drafts = {draft.digest: draft for draft in passages}
    if len(drafts) <= AHEAD:
        return StoredAhead(finished=True, computed=0)
    stored = _look_up(source.archive_id, space, list(drafts))
    missing = [draft for digest, draft in drafts.items() if digest not in stored]
    computed = 0
    for start in range(0, len(missing) - AHEAD, AHEAD):
        texts = {draft.digest: draft.text for draft in missing[start : start + AHEAD]}
        fresh, _ = apart((yield TextsToEmbed(source.archive_id, space, texts)))
        kept = [draft for draft in missing[start : start + AHEAD] if draft.digest in fresh]
        with transaction.atomic():
            lock_vectors(source.pk, space.pk)
            keep(source, space, _packed(kept, fresh, space))
        computed += len(kept)
        if kept and out_of_time():
            return StoredAhead(finished=False, computed=computed)
    return StoredAhead(finished=True, computed=computed)


def drop_passages(source: Source, *, first_item: int, spaces: Iterable[EmbeddingSpace]) -> None:
    """Delete the passages of this item and of all later ones in these spaces.

    Call it after their vectors were deleted.
    """
    for space in spaces:
        with transaction.atomic():
            lock_vectors(source.pk, space.pk)
            blocks, boundary = current_blocks_of(source, space), first_item // ITEMS_PER_BLOCK
            blocks.filter(number__gt=boundary).delete()
            passages = read_passages(blocks.filter(number=boundary), space)
            repack(source, space, passages.chosen(passages.entries["item"] < first_item), [boundary])


def move_passages(source: Source, moved: Mapping[int, int]) -> None:
    """Renumber the passages of items that only got other numbers (old: new), so that they are not embedded again.

    Passages of other items stay until theirs are stored. Call it in the transaction that renumbers the items.
    """
    changed = {old: new for old, new in moved.items() if old != new}
    if not changed:
        return
    numbers = {item // ITEMS_PER_BLOCK for item in (*changed, *changed.values())}
    for space in EmbeddingSpace.objects.filter(pk__in=PassageBlock.objects.filter(source=source).values("space")):
        lock_vectors(source.pk, space.pk)
        passages = read_passages(current_blocks_of(source, space).filter(number__in=numbers), space)
        entries = passages.entries.copy()
        entries["item"] = [changed.get(item, item) for item in entries["item"].tolist()]
        repack(source, space, replace(passages, entries=entries), numbers)


def _replace(
    source: Source,
    space: EmbeddingSpace,
    elements: Sequence[Element],
    drafts: Sequence[PassageDraft],
    items: Collection[int] = (),
    store_vectors: Callable[[Mapping[UUID, Embedded], Collection[int]], None] | None = None,
) -> EmbeddingSteps[tuple[int, dict[int, str]]]:
    """Replace the passages of `items`, or else of the elements; return how many were computed, and the errors of failed
    elements.

    `store_vectors` is called in the same transaction with the embeddings and the failed elements; it stores the vectors
    of `items`.
    """
    texts = {draft.digest: draft.text for draft in drafts}
    stored = _look_up(source.archive_id, space, list(texts))
    missing = {digest: text for digest, text in texts.items() if digest not in stored}
    refused: dict[UUID, str] = {}
    try:
        if missing:
            computed, refused = apart((yield TextsToEmbed(source.archive_id, space, missing)))
            stored |= computed
    except EmbedderUnavailable as error:
        errors = {element.element_id: str(error) for element in elements}
        _announce_outcomes(source, space, elements, {}, errors, keep_completed=True)
        raise
    kept = [draft for draft in drafts if draft.digest in stored]
    errors = {draft.element.element_id: refused[draft.digest] for draft in drafts if draft.digest in refused}
    token_counts: Counter[int] = Counter()
    for draft in kept:
        token_counts[draft.element.element_id] += stored[draft.digest].token_count
    with transaction.atomic():
        lock_vectors(source.pk, space.pk)
        replaced = [element.element_id for element in elements]
        numbers = {item // ITEMS_PER_BLOCK for item in (*items, *(element.item_number for element in elements))}
        if not items:  # an element may have been in another item
            numbers |= numbers_with(source, space, replaced)
        before = read_passages(current_blocks_of(source, space).filter(number__in=numbers), space)
        stale = np.isin(before.entries["item"], list(items)) if items else np.isin(before.entries["element"], replaced)
        if store_vectors is not None:
            store_vectors(stored, errors)
        repack(source, space, before.chosen(~stale).joined(_packed(kept, stored, space)), numbers)
        _announce_outcomes(source, space, elements, token_counts, errors)
    return len(missing), errors


def _announce_outcomes(
    source: Source,
    space: EmbeddingSpace,
    elements: Sequence[Element],
    token_counts: Mapping[int, int],
    errors: Mapping[int, str],
    *,
    keep_completed: bool = False,
) -> None:
    elements_embedded.send(
        Source, source=source, space=space, elements=elements, token_counts=token_counts, errors=errors,
        keep_completed=keep_completed,
    )  # fmt: skip


def embed(request: TextsToEmbed) -> Answer:
    """Embed the texts, or say which ones the model refuses. Raises: EmbedderUnavailable."""
    texts = request.texts
    with timed("embedding", label="passages", items=len(texts)):
        return dict(zip(texts, _embed(request.archive_id, request.space, list(texts.values())), strict=True))


def apart(answer: Answer) -> tuple[dict[UUID, Embedded], dict[UUID, str]]:
    """Return the embeddings and the reasons of an answer, each by hash."""
    embedded = {digest: result for digest, result in answer.items() if isinstance(result, Embedded)}
    return embedded, {digest: str(answer[digest]) for digest in answer.keys() - embedded.keys()}


def _packed(drafts: Iterable[PassageDraft], embedded: Mapping[UUID, Embedded], space: EmbeddingSpace) -> Passages:
    """Return the passages of these drafts, all of which are embedded."""
    return Passages.of(
        (
            StoredPassage(
                draft.element.element_id, draft.element.item_number, draft.span.start, draft.span.end,
                draft.span.part_index, KINDS[draft.span.kind], draft.asks, embedded[draft.digest].token_count,
                draft.digest, embedded[draft.digest].code, embedded[draft.digest].tokens,
            )
            for draft in drafts
        ),
        space,
    )  # fmt: skip


def new_passage_texts(archive_id: int, space: EmbeddingSpace, elements: Iterable[Element]) -> list[str]:
    """Return the texts of the elements' passages that the owner has with no vector of the space's sentence model."""
    texts = {draft.digest: draft.text for draft in draft_passages(elements)}
    stored = _equal_sentences(archive_id, space, list(texts))
    return [text for digest, text in texts.items() if digest not in stored]


def _look_up(archive_id: int, space: EmbeddingSpace, digests: list[UUID]) -> dict[UUID, Embedded]:
    """Return embeddings of the owner's equal texts, also of objects in the trash."""
    equal = equal_passages(archive_id, space, digests)
    return {digest: Embedded(one.code, one.token_count, one.tokens) for digest, one in equal.items()}


def _equal_sentences(archive_id: int, space: EmbeddingSpace, digests: list[UUID]) -> dict[UUID, bytes]:
    """Return codes of the owner's equal texts, of any space with the same sentence model."""
    codes: dict[UUID, bytes] = {}
    for of_same in with_same_sentences(space):
        codes |= {digest: one.code for digest, one in equal_passages(archive_id, of_same, digests).items()}
    return codes


def _embed(archive_id: int, space: EmbeddingSpace, texts: Sequence[str]) -> list[Embedded | EmbeddingError]:
    """Return the embeddings in the order of the texts.

    If the sentence model runs apart from the token model, the codes of known vectors are copied: those of spaces that
    differ in the token model alone. Vectors that a provider computed beforehand are read.
    """
    embedder = embedder_for(space)
    rows: list[tuple[Vector | bytes | EmbeddingError, int, bytes]]
    if isinstance(embedder, TokenEmbedder) and not isinstance(embedder, PairedEmbedder):
        rows = [
            (embedding.vector, len(embedding.token_ids), coded_words(embedder, embedding))
            for embedding in embedder.embed_passages_with_tokens(texts)
        ]
        return _encoded(rows)
    digests = {passage_hash(text): text for text in texts}
    stored = {digests[digest]: code for digest, code in _equal_sentences(archive_id, space, list(digests)).items()}
    ahead = vectors_ahead(space, [text for text in texts if text not in stored], archive_id=archive_id)
    others = iter(embed_each(embedder, [text for text in texts if text not in stored and text not in ahead]))
    coded: Iterator[bytes] = repeat(b"", len(texts))
    if isinstance(embedder, PairedEmbedder):
        coded = (coded_words(embedder, embedded) for embedded in embedder.tokens.embed_passages_with_tokens(texts))
    rows = [
        (stored[text] if text in stored else ahead[text] if text in ahead else next(others), count, tokens)
        for text, count, tokens in zip(texts, embedder.count_tokens(texts), coded, strict=True)
    ]
    return _encoded(rows)


def _encoded(
    rows: Sequence[tuple[Vector | bytes | EmbeddingError, int, bytes]],
) -> list[Embedded | EmbeddingError]:
    """Return the embeddings of vectors, which are encoded together, of codes, or of refusals."""
    codes = iter(encode(np.array([vector for vector, _, _ in rows if isinstance(vector, np.ndarray)], np.float32)))
    return [
        vector
        if isinstance(vector, EmbeddingError)
        else Embedded(vector if isinstance(vector, bytes) else next(codes), count, tokens)
        for vector, count, tokens in rows
    ]


# The coded token vectors stored for a passage: only those of words, because punctuation finds nothing.
def coded_words(embedder: TokenEmbedder, embedding: TokenEmbedding) -> bytes:
    """Return the codes of the tokens that are words."""
    return encode_vectors(embedding.token_vectors[embedder.are_words(embedding.token_ids)])
