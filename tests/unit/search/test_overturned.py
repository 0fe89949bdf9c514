"""Turns that decide otherwise: precision and recall on labelled pairs, half of which agree, in nine languages.

148 of the 212 pairs were written after the rules, in six rounds: at the first trial precision was .67, .73, .91, 4 of
5, 4 of 4, and 0 sentences of 12 pairs that agree; recall of the fourth and fifth was 4 of 20 and 4 of 12. Each round
changed the rules, so that precision on pairs unseen so far is the one at the first trial.
"""

import json
from collections import Counter
from pathlib import Path

from search.results.overturned import Said, overturning

PAIRS = [json.loads(line) for line in Path(__file__).with_name("decisions.jsonl").read_text("utf-8").splitlines()]
PRECISION, RECALL = 0.9, 0.75


def test_overturning_sentences_are_named_with_precision_and_recall() -> None:
    outcomes: Counter[tuple[bool, bool]] = Counter()
    wrong = []
    for pair in PAIRS:
        quote = overturning(Said(*pair["earlier"]), Said(*pair["later"]), is_next=pair["next"])
        outcomes[pair["overturned"], bool(quote)] += 1
        if bool(quote) != pair["overturned"]:
            wrong.append((pair["later"], quote))
    right, named = outcomes[True, True], outcomes[True, True] + outcomes[False, True]
    print(f"precision {right}/{named}, recall {right}/{right + outcomes[True, False]}: {wrong}")
    assert right >= PRECISION * named
    assert right >= RECALL * (right + outcomes[True, False])


def test_labelled_pairs_are_balanced_and_of_many_languages() -> None:
    overturned = sum(pair["overturned"] for pair in PAIRS)
    assert len(PAIRS) >= 60
    assert abs(2 * overturned - len(PAIRS)) <= len(PAIRS) * 0.1
    assert len({pair["language"] for pair in PAIRS}) >= 9


def test_quote_is_verbatim() -> None:
    asked = "The partner has to verify them, so use EdDSA for the JWTs instead. Rotate the keys each year."
    quote = overturning(Said("Is HS256 ok for signing the JWTs?", "Yes."), Said(asked, "Done."), is_next=True)
    assert quote == "The partner has to verify them, so use EdDSA for the JWTs instead."
