"""The sentences of a section that a hit marks."""

from itertools import pairwise

from search.results.runs import FURTHER, FURTHER_ROOM, MAX_GAP, PassagePlace, Scored, marked_runs, shown_chars_at

LENGTH = 90


def sentences(*scores: float, gap: int = 1, part: int = 0) -> list[Scored]:
    """Sentences of `LENGTH` characters, one after the other."""
    step = LENGTH + gap
    return [(score, (7, part, at * step, at * step + LENGTH, score)) for at, score in enumerate(scores)]


def spans(runs: list[PassagePlace]) -> list[tuple[int, int]]:
    return [(start, end) for _, _, start, end, _ in runs]


def test_best_sentence_takes_in_its_better_neighbours_within_room() -> None:
    runs = marked_runs(sentences(0.1, 0.8, 0.9, 0.7, 0.2), room=300)
    assert spans(runs)[0] == (91, 363)
    assert runs[0][4] == 0.9


def test_best_sentence_without_room_is_marked_alone() -> None:
    assert spans(marked_runs(sentences(0.8, 0.9, 0.7), room=LENGTH))[0] == (91, 181)


def test_weak_neighbour_is_not_taken_in() -> None:
    assert spans(marked_runs(sentences(0.0, 0.9, 0.05, 0.8), room=1_000))[0] == (91, 181)


def test_remaining_sentences_are_marked_as_further_passages() -> None:
    runs = marked_runs(sentences(0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1), room=100)
    assert len(runs) == 1 + FURTHER
    covered = sorted(spans(runs))
    assert all(before[1] <= after[0] for before, after in pairwise(covered))
    assert all(end - start <= FURTHER_ROOM for start, end in covered)
    assert any(start <= 8 * (LENGTH + 1) < end for start, end in spans(runs)[1:2])


def test_runs_do_not_cross_gaps_or_parts() -> None:
    assert spans(marked_runs(sentences(0.9, 0.8, gap=MAX_GAP + 1), room=1_000))[0] == (0, LENGTH)
    two_parts = [*sentences(0.9), *sentences(0.8, part=1)]
    assert spans(marked_runs(two_parts, room=1_000)) == [(0, LENGTH), (0, LENGTH)]


def test_duplicate_sentence_is_marked_once() -> None:
    assert spans(marked_runs([*sentences(0.4), *sentences(0.5)], room=10)) == [(0, LENGTH)]


def test_single_sentence_is_one_run() -> None:
    assert spans(marked_runs(sentences(0.4), room=10)) == [(0, LENGTH)]


def test_first_hits_have_most_room() -> None:
    assert shown_chars_at(0) > shown_chars_at(1) > shown_chars_at(2) > shown_chars_at(3) == shown_chars_at(30)
