"""Protocols and ablation over a small file of the published shape, through the whole search."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from benchmarks import ablation, protocols
from benchmarks.ablation import PARTS
from benchmarks.datasets import read_dataset

pytestmark = pytest.mark.django_db

SAID = (
    "The heron stood in the marsh at dawn.",
    "Our oven broke while the bread was rising.",
    "The train to Bergen was late.",
)
ASKED = ("Where did the heron stand?", "What broke while the bread was rising?", "Which train was late?")


@pytest.fixture
def locomo(tmp_path: Path) -> Path:
    """Three sessions of a turn each; a question of each, and one that nothing answers."""
    conversation: dict[str, Any] = {"speaker_a": "Ann", "speaker_b": "Bob"}
    for number, text in enumerate(SAID, 1):
        conversation[f"session_{number}_date_time"] = f"9:00 am on {number} May, 2023"
        conversation[f"session_{number}"] = [
            {"speaker": "Ann", "dia_id": f"D{number}:1", "text": text},
            {"speaker": "Bob", "dia_id": f"D{number}:2", "text": "I see."},
        ]
    asked = [{"question": text, "evidence": [f"D{n}:1"], "category": 4} for n, text in enumerate(ASKED, 1)]
    adversarial = {"question": "Where did Bob's heron stand?", "evidence": ["D1:1"], "category": 5}
    sample = {"sample_id": "c1", "conversation": conversation, "qa": [*asked, adversarial]}
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([sample]), encoding="utf-8")
    return path


@pytest.mark.slow
def test_locomo_is_counted_by_messages_sessions_and_turns(locomo: Path) -> None:
    report = protocols.report("locomo", locomo)
    assert report["questions"] == 3
    assert report["sessions"]["any@1"] == report["sessions"]["all@5"] == 1
    assert report["turns"]["all"]["recall@1"] == report["turns"]["single-hop"]["recall@1"] == 1
    assert report["lmeb"]["adversarial"]["questions"] == 1
    assert report["lmeb"]["single_hop"] == {"questions": 3, "ndcg@10": 1, "recall@10": 1}
    assert not User.objects.exists()


def test_ablation_asks_same_questions_without_each_part(locomo: Path) -> None:
    loaded = ablation.load("locomo", list(read_dataset("locomo", locomo)))
    report = ablation.report(loaded, PARTS, "locomo")
    assert report["questions"] == 3
    assert report["complete"]["hit@1"]["mean"] == 1
    assert [row["without"] for row in report["without"]] == [part.title for part in PARTS]
    for row in report["without"]:
        assert row["change"]["hit@1"]["mean"] == pytest.approx(row["quality"]["hit@1"]["mean"] - 1, abs=1e-3)
    assert set(report["weights"]) == {"fitted", "left out"}
