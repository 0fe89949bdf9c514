"""The index status describes each state of an archive in a sentence."""

import pytest
from django.utils.translation import override

from search.indexing.status import IndexStatus


def status(**values: int) -> IndexStatus:
    return IndexStatus(
        **({"turns": 0, "embedded_turns": 0, "messages": 0, "passages": 0, "pending": 0, "failed": 0} | values)
    )


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"turns": 3, "embedded_turns": 3}, "All 3 turns are indexed."),
        ({"turns": 1, "embedded_turns": 1, "sections": 2, "embedded_sections": 2},
         "1 turn is indexed. All 2 sections are indexed."),
        ({"sections": 2, "embedded_sections": 2}, "All 2 sections are indexed."),
        ({"turns": 4, "embedded_turns": 1, "pending": 3},
         "3 of 4 turns wait to be indexed by meaning (25% done); search by words finds them already."),
        ({"sections": 4, "pending": 4, "without_words": 1},
         "4 of 4 sections wait to be indexed by meaning (0% done); 1 of them waits for its words, too."),
        ({"turns": 1, "sections": 1, "pending": 2, "failed": 1, "without_words": 2},
         "2 of 2 turns and sections wait to be indexed by meaning (0% done); 2 of them wait for their words, too."),
        ({"turns": 2, "embedded_turns": 1, "failed": 1},
         "1 turn could not be indexed by meaning; search by words finds it."),
        ({"turns": 2, "sections": 1, "failed": 2},
         "2 turns or sections could not be indexed by meaning; search by words finds them."),
    ],
)  # fmt: skip
def test_status_says_what_can_be_found(values: dict[str, int], sentence: str) -> None:
    assert status(**values).sentence == sentence


@pytest.mark.parametrize(
    ("values", "progress"),
    [
        ({"turns": 1200, "embedded_turns": 1000, "pending": 200}, "Indexing: 1,000 of 1,200 turns"),
        ({"turns": 4, "embedded_turns": 2, "sections": 3}, "Indexing: 2 of 4 turns, 0 of 3 sections"),
        ({"sections": 3, "embedded_sections": 1}, "Indexing: 1 of 3 sections"),
    ],
)
def test_progress_counts_turns_and_sections(values: dict[str, int], progress: str) -> None:
    with override("en"):
        assert status(**values).progress == progress
