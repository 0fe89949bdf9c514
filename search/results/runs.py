"""Which sentences of a document's section a hit marks: those that answer best, as runs of neighbours. Pure.

The first hits of a page get the most space: they are most likely to answer, and can then be read in place. Other
sentences of a section that answer are marked as further passages.
"""

from collections.abc import Sequence
from itertools import pairwise

PassagePlace = tuple[int, int, int, int, float]
"""Element, part, start, end, similarity."""
Scored = tuple[float, PassagePlace]

ROOM = (400, 350, 300)  # characters of the passage that the first hits of a page mark
ROOM_BELOW = 250  # of those below; a single sentence may be longer
GROW_SHARE = 0.1  # of the way from a section's worst score to its best: less is not taken in
FURTHER, FURTHER_ROOM = 2, 400
MAX_GAP = 40  # characters between neighbours: white space, a rule, the mark of a list


def shown_chars_at(place: int) -> int:
    """The space, in characters, for the hit at this place of the page, from 0."""
    return ROOM[place] if place < len(ROOM) else ROOM_BELOW


def marked_runs(scored: Sequence[Scored], *, room: int) -> list[PassagePlace]:
    """The best run of sentences that fits `room` characters, then up to `FURTHER` of the rest; each sentence counts
    once."""
    distinct = {passage[1][:4]: passage for passage in scored}
    left = sorted(distinct.values(), key=lambda passage: passage[1][:3])
    least, most = min(left)[0], max(left)[0]
    runs = [_take_best(left, room, least + GROW_SHARE * (most - least))]
    while left and len(runs) <= FURTHER:
        runs.append(_take_best(left, FURTHER_ROOM, least))
    return runs


def _take_best(left: list[Scored], room: int, least: float) -> PassagePlace:
    """Takes the best sentence out of `left`, with neighbours of at least score `least`, better ones first."""
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
    """Whether these are consecutive in one part and fit the space."""
    places = [place for _, place in left[first : last + 1]]
    is_one_part = all(place[:2] == places[0][:2] for place in places)
    gaps = (after[2] - before[3] for before, after in pairwise(places))
    return is_one_part and places[-1][3] - places[0][2] <= room and all(gap <= MAX_GAP for gap in gaps)
