"""A floor under questions that say when: sixty of our own, and twelve whose words of time say nothing about it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from convmemory.evaluation.running import Observation, load_haystack, observe_haystack
from convmemory.evaluation.samples import read
from tests.retrieval.conftest import Archive

FOLDER = Path(__file__).parent / "asked_in_time"
FLOOR = {
    "time": 0.68,
    "no time": 0.83,
}  # the share whose right turn comes first, a question or two under what was measured


def no_progress(done: str, number: int, count: int) -> None:
    pass


def share_first(observed: Sequence[Observation]) -> tuple[float, list[str]]:
    """The share of questions whose right turn comes first, and the others."""
    misses = [o.question.text for o in observed if o.order[0] not in o.gold]
    return 1 - len(misses) / len(observed), misses


@pytest.mark.django_db
def test_questions_find_the_turns_of_their_time(archive: Archive) -> None:
    [haystack] = read(FOLDER)
    load_haystack(archive.owner, haystack, no_progress)  # the samples are there; this adds the talks of certain days
    observed = observe_haystack(archive.owner, haystack, mode="hybrid", progress=no_progress)
    for name, floor in FLOOR.items():
        share, misses = share_first([o for o in observed if (o.question.category == "no time") is (name == "no time")])
        assert share >= floor, f"{share}: {misses}"
