"""Turns that decide otherwise: precision and recall on labelled pairs, half of which agree, in nine languages.

148 of the first 212 pairs were written after the rules, in six rounds: at the first trial precision was .67, .73, .91,
4 of 5, 4 of 4, and 0 sentences of 12 pairs that agree; recall of the fourth and fifth was 4 of 20 and 4 of 12.

The 144 pairs with a round put another number, day or name in the place of the one that was concluded, without a word
that says so. A rule for them named 36 of the 73 that overturn, but at the first trial of each round 8 of 16, 14 of 23
and 9 of 12 of what it named were right: they go unsaid.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from search.results.overturned import Said, overturning

PAIRS = [json.loads(line) for line in Path(__file__).with_name("decisions.jsonl").read_text("utf-8").splitlines()]
PRECISION, RECALL, RECALL_WITHOUT_CUE = 0.9, 0.75, 0.05


@pytest.mark.parametrize(
    ("least_recall", "pairs"),
    [
        (RECALL, [pair for pair in PAIRS if "round" not in pair]),
        (RECALL_WITHOUT_CUE, [p for p in PAIRS if "round" in p]),
    ],
    ids=["with a cue", "without"],
)
def test_overturning_sentences_are_named_with_precision_and_recall(
    least_recall: float, pairs: list[dict[str, Any]]
) -> None:
    outcomes: Counter[tuple[bool, bool]] = Counter()
    wrong = []
    for pair in pairs:
        quote = overturning(Said(*pair["earlier"]), Said(*pair["later"]), is_next=pair["next"])
        outcomes[pair["overturned"], bool(quote)] += 1
        if bool(quote) != pair["overturned"]:
            wrong.append((pair["later"], quote))
    right, named = outcomes[True, True], outcomes[True, True] + outcomes[False, True]
    print(f"precision {right}/{named}, recall {right}/{right + outcomes[True, False]}: {wrong}")
    assert right >= PRECISION * named
    assert right >= least_recall * (right + outcomes[True, False])


def test_labelled_pairs_are_balanced_and_of_many_languages() -> None:
    overturned = sum(pair["overturned"] for pair in PAIRS)
    assert len(PAIRS) >= 60
    assert abs(2 * overturned - len(PAIRS)) <= len(PAIRS) * 0.1
    assert len({pair["language"] for pair in PAIRS}) >= 9


def test_quote_is_verbatim() -> None:
    asked = "The partner has to verify them, so use EdDSA for the JWTs instead. Rotate the keys each year."
    quote = overturning(Said("Is HS256 ok for signing the JWTs?", "Yes."), Said(asked, "Done."), is_next=True)
    assert quote == "The partner has to verify them, so use EdDSA for the JWTs instead."


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (
            ("Weight on Monday: 81 kg", "Noted: 81 kg on Monday."),
            ("Weight on Tuesday: 80 kg", "Noted: 80 kg on Tuesday."),
        ),
        (("log 2024-05-14", "Log of 2024-05-14."), ("log 2024-05-15", "Log of 2024-05-15.")),
        (
            ("Run batch seven of the letters", "Batch seven is sent."),
            ("Run batch eight of the letters", "Batch eight is sent."),
        ),
    ],
)
def test_entries_of_a_series_overturn_nothing(earlier: tuple[str, str], later: tuple[str, str]) -> None:
    assert not overturning(Said(*earlier), Said(*later), is_next=True)
