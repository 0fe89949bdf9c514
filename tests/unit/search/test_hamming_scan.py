"""Binary codes of vectors in machine words: distances, similarities, pieces, and which are the nearest."""

import numpy as np
import pytest

from convmemory.embeddings.embedder import unit_rows
from convmemory.embeddings.token_codes import encode_vectors
from search.retrieval.candidates import item_keys
from search.retrieval.dense import ScannedVectors, _least, _least_of, estimated_cosines
from search.vectors.blocks import (
    ENTRY,
    Blocks,
    Codes,
    ScannedPassages,
    Words,
    as_words,
    code_similarities,
    hamming_distances,
)
from search.vectors.codes import encode, rotated, short_bytes


def first_parts(vectors: np.ndarray) -> bytes:
    return b"".join(code[: short_bytes(vectors.shape[1])] for code in encode(vectors))


def packed(vectors: np.ndarray, first_id: int = 0) -> Codes:
    places = np.zeros(len(vectors), ENTRY)
    places["id"] = np.arange(first_id, first_id + len(vectors))
    places["item"], places["kind"] = 7, 4
    return Codes.unpacked(places.tobytes(), first_parts(vectors), vectors.shape[1])


def words_of(vectors: np.ndarray) -> Words:
    return as_words(np.frombuffer(encode_vectors(vectors), np.uint8).reshape(len(vectors), -1))


@pytest.mark.parametrize("dimensions", [384, 96, 48, 12])
def test_distance_is_number_of_bits_that_differ(dimensions: int) -> None:
    vectors = np.random.default_rng(3).standard_normal((50, dimensions)).astype(np.float32)
    codes, (question, *_) = packed(vectors), rotated(vectors)
    expected = ((rotated(vectors) > 0) != (question > 0)).sum(axis=1)
    assert hamming_distances(codes.words, question).tolist() == expected.tolist()
    assert (codes.ids[3], codes.items[3], codes.kinds[3]) == (3, 7, 4)


@pytest.mark.parametrize("dimensions", [384, 96, 48, 12])
def test_similarity_is_mean_of_questions_values_with_signs_of_bits(dimensions: int) -> None:
    vectors = np.random.default_rng(3).standard_normal((50, dimensions)).astype(np.float32)
    question = vectors[0] / np.linalg.norm(vectors[0])
    expected = np.where(vectors > 0, 1, -1) @ question / np.sqrt(dimensions)
    assert code_similarities(words_of(vectors), question) == pytest.approx(expected, abs=1e-4)


def test_nearest_passages_of_items_are_found_item_by_item() -> None:
    vectors = unit_rows(np.random.default_rng(6).standard_normal((6, 64)).astype(np.float32))
    places = np.zeros(6, ENTRY)
    places["id"], places["item"], places["asks"] = [10, 11, 12, 13, 14, 15], [2, 1, 2, 5, 1, 1], [1, 0, 0, 0, 0, 0]
    codes = Codes.unpacked(places.tobytes(), first_parts(vectors), 64)
    blocks = Blocks((2, 0), np.array([1, 2]), np.array([7, 8]), np.array([4, 2]), codes)
    wanted = item_keys([7, 7, 7, 8, 9], [1, 2, 3, 1, 1])
    question = vectors[2] + vectors[5]
    scanned_passages = ScannedPassages(blocks, rotated(question[None])[0])
    for nearest, ids in ((2, [11, 12, 10, 15, 14]), (1, [11, 12, 15])):
        near = scanned_passages.nearest_of_items(wanted, [0], nearest)
        assert near.ids.tolist() == ids
        assert np.bincount(near.of_item, minlength=5).tolist() == [1, nearest, 0, nearest, 0]
        exact = vectors[np.searchsorted(places["id"], near.ids)] @ question
        assert np.abs(near.cosines - exact).max() < 0.2
    asking = np.array([False, True, False, False, False])
    assert scanned_passages.nearest_of_items(wanted, [0], 1, asking_alone=asking).ids.tolist() == [11, 10, 15]
    for items, kinds in ((wanted[:0], [0]), (wanted, [1]), (wanted, [])):
        assert not len(scanned_passages.nearest_of_items(items, kinds, 2).ids)


def test_joined_pieces_equal_whole() -> None:
    vectors = np.random.default_rng(4).standard_normal((30, 64)).astype(np.float32)
    whole = packed(vectors)
    first = whole.ids < 11
    again = whole.those(first).followed_by(whole.those(~first))
    assert again.ids.tolist() == whole.ids.tolist()
    assert again.words.tolist() == whole.words.tolist()
    question, every = rotated(vectors[:1])[0], np.arange(30)
    assert again.cosines(every, question).tolist() == whole.cosines(every, question).tolist()


@pytest.mark.parametrize(
    ("limit", "nearest"), [(1, {2}), (2, {2, 3}), (3, {2, 3, 1}), (4, {2, 3, 1, 0}), (5, {2, 3, 1, 0}), (0, set())]
)
def test_least_keeps_newest_of_equal_distances(limit: int, nearest: set[int]) -> None:
    distances, ids = np.array([9, 5, 2, 5], np.uint16), np.array([70, 40, 60, 50])
    assert set(_least(distances, ids, limit).tolist()) == nearest


def test_least_of_no_distances_is_empty() -> None:
    assert _least(np.array([], np.uint16), np.array([], np.int64), 3).tolist() == []


def test_least_of_considers_wanted_items_only() -> None:
    ids = np.array([70, 40, 60, 50])
    for limit, nearest in ((1, [3]), (2, [0, 3]), (4, [0, 3])):
        distances = np.array([9, 5, 2, 5], np.uint16)
        wanted = np.array([True, False, False, True])
        assert sorted(_least_of(wanted, distances, ids, limit).tolist()) == nearest
    distances = np.array([9, 5, 2, 5], np.uint16)
    assert _least_of(np.zeros(4, np.bool_), distances, ids, 3).tolist() == []


def scanned(similarities: np.ndarray) -> ScannedVectors:
    ids = np.arange(len(similarities))
    return ScannedVectors(ids, ids << 24, similarities.astype(np.float32))


def test_cosine_is_estimated_closely_from_similarity_of_code() -> None:
    vectors = np.random.default_rng(5).standard_normal((3_000, 384)).astype(np.float32)
    vectors += np.linspace(0, 0.6, len(vectors), dtype=np.float32)[:, None] * vectors[0]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    question = vectors[0]
    cosines, every = vectors @ question, scanned(code_similarities(words_of(vectors), question))
    near, rest = every.parted(1_000)
    estimated = estimated_cosines(near, cosines[near.ids], rest)
    assert len(near.ids) + len(rest.ids) == len(vectors)
    assert near.similarities.min() >= rest.similarities.max()
    assert np.abs(estimated - cosines[rest.ids]).mean() < 0.07
    assert np.corrcoef(estimated, cosines[rest.ids])[0, 1] > 0.9


def test_parted_puts_newest_of_equal_similarities_first() -> None:
    near, rest = scanned(np.array([0.5, 0.7, 0.5, 0.5])).parted(2)
    assert (near.ids.tolist(), rest.ids.tolist()) == ([1, 3], [2, 0])


def test_estimate_from_equal_similarities_is_mean_cosine() -> None:
    known = scanned(np.array([0.9, 0.9]))
    cosines, others = np.array([0.2, 0.4], np.float32), scanned(np.array([0.9, 0.3]))
    assert estimated_cosines(known, cosines, others).tolist() == pytest.approx([0.3, 0.3])


@pytest.mark.parametrize("count", [1, 3, 699, 700])
def test_copies_of_one_text_give_its_cosine(count: int) -> None:
    known, cosines = scanned(np.full(count, 0.1)), np.full(count, 0.7, np.float32)
    assert estimated_cosines(known, cosines, scanned(np.array([0.1]))).tolist() == pytest.approx([0.7])


def test_vectors_are_chosen_by_their_ids_in_order_asked_for() -> None:
    found = scanned(np.array([4, 5, 6, 7])).of_ids([3, 0, 2])
    assert found.similarities.tolist() == [7, 4, 6]
    assert found.items.tolist() == [3 << 24, 0, 2 << 24]
