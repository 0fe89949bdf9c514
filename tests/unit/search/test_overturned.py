"""Turns that decide otherwise: precision and recall on labelled pairs, half of which agree, in nine languages.

148 of the first 212 pairs were written after the rules, in six rounds: at the first trial precision was .67, .73, .91,
4 of 5, 4 of 4, and 0 sentences of 12 pairs that agree; recall of the fourth and fifth was 4 of 20 and 4 of 12. In the
rounds 7 to 10 it was 2 of 2, 8 of 16, 14 of 23 and 9 of 12, recall 2 of 21, 8 of 20, 14 of 20 and 9 of 12; those of 8
to 10 that agree look like those that do not (another number, another name). Each round changed the rules, so that
precision on pairs unseen so far is the one at the first trial.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from search.results.overturned import Said, overturning

PAIRS = [json.loads(line) for line in Path(__file__).with_name("decisions.jsonl").read_text("utf-8").splitlines()]
PRECISION, RECALL, RECALL_LATER = 0.9, 0.75, 0.45


@pytest.mark.parametrize(
    ("least_recall", "pairs"),
    [(RECALL, [pair for pair in PAIRS if "round" not in pair]), (RECALL_LATER, [p for p in PAIRS if "round" in p])],
    ids=["first", "later"],
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
