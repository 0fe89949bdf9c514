"""Chooses the sentences of a document's section that a hit marks: the best ones, as runs of neighbours. Pure.

The first hits of a page get the most space: they are most likely to answer, and can then be read in place. Other good
sentences of a section are marked as further passages. Source: docs/adr/0049-rank-sections-mark-sentences.md.
"""

from collections.abc import Sequence
from itertools import pairwise

PassagePlace = tuple[int, int, int, int, float]
"""Element, part, start, end, similarity."""
Scored = tuple[float, PassagePlace]

# The characters that the first hits of a page mark.
ROOM = (400, 350, 300)
# For the hits below. A single sentence may be longer.
ROOM_BELOW = 250
# A neighbour joins a run only if its score lies above the section's worst score by this share of the way to the best.
GROW_SHARE = 0.1
FURTHER, FURTHER_ROOM = 2, 400
# Neighbours may be separated by this many characters: white space, a rule, the mark of a list.
MAX_GAP = 40


def shown_chars_at(position: int) -> int:
    """Return the space, in characters, for the hit at this place of the page, from 0."""
    return ROOM[position] if position < len(ROOM) else ROOM_BELOW


def marked_runs(scored: Sequence[Scored], *, room: int) -> list[PassagePlace]:
    """Return the best run of sentences that fits `room` characters, then up to `FURTHER` runs of the rest.

    Each sentence counts once.
    """
    distinct = {passage[1][:4]: passage for passage in scored}
    left = sorted(distinct.values(), key=lambda passage: passage[1][:3])
    least, most = min(left)[0], max(left)[0]
    runs = [_take_best(left, room, least + GROW_SHARE * (most - least))]
    while left and len(runs) <= FURTHER:
        runs.append(_take_best(left, FURTHER_ROOM, least))
    return runs


def _take_best(left: list[Scored], room: int, least: float) -> PassagePlace:
    """Take the best sentence out of `left`, with neighbours of at least score `least`, better ones first."""
    first = last = max(range(len(left)), key=lambda index: left[index][0])
    similarity = left[first][1][4]
    while True:
        grown = [
            (left[index][0], index)
            for index, start, end in ((first - 1, first - 1, last), (last + 1, first, last + 1))
            if 0 <= index < len(left) and left[index][0] >= least and _joins(left, start, end, room)
        ]
        if not grown:
            break
        index = max(grown)[1]
        first, last = min(first, index), max(last, index)
    element_id, part_index, start, _, _ = left[first][1]
    end = left[last][1][3]
    del left[first : last + 1]
    return element_id, part_index, start, end, similarity


def _joins(left: Sequence[Scored], first: int, last: int, room: int) -> bool:
    """Return whether these are consecutive in one part and fit the space."""
    places = [position for _, position in left[first : last + 1]]
    is_one_part = all(position[:2] == places[0][:2] for position in places)
    gaps = (after[2] - before[3] for before, after in pairwise(places))
    return is_one_part and places[-1][3] - places[0][2] <= room and all(gap <= MAX_GAP for gap in gaps)
