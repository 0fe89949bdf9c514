"""A floor under questions that say when: sixty of our own, and twelve whose words of time say nothing about it."""

from pathlib import Path

import pytest

from convmemory.evaluation.haystacks import Haystack
from convmemory.evaluation.running import load_haystack, observe_haystack, scratch_user
from convmemory.evaluation.samples import read

FOLDER = Path(__file__).parent / "asked_in_time"
FLOOR = {
    "time": 0.68,
    "no time": 0.83,
}  # the share whose right turn comes first, a question or two under what was measured


def quiet(done: str, number: int, count: int) -> None:
    pass


def share_first(haystack: Haystack, *, says_when: bool) -> tuple[float, list[str]]:
    """The share of questions whose right turn comes first, and the others."""
    observed = observe_haystack(scratch_user("floor", haystack), haystack, mode="hybrid", progress=quiet)
    chosen = [o for o in observed if (o.question.category != "no time") is says_when]
    misses = [o.question.text for o in chosen if o.order[0] not in o.gold]
    return 1 - len(misses) / len(chosen), misses


@pytest.mark.django_db
def test_questions_find_the_turns_of_their_time() -> None:
    [haystack] = read(FOLDER)
    load_haystack(scratch_user("floor", haystack), haystack, quiet)
    for name, says_when in (("time", True), ("no time", False)):
        share, misses = share_first(haystack, says_when=says_when)
        assert share >= FLOOR[name], f"{share}: {misses}"
