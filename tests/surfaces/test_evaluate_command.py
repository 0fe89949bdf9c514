"""`manage.py evaluate` on a tiny set in LoCoMo's shape, and the own samples' refusal of an empty folder."""

import csv
import json
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from benchmarks.management.commands import evaluate
from convmemory.documents import processing
from search.models import RerankerWeight
from search.ranking import reranking
from search.ranking.relevance import read_calibrations
from tests.support.documents import convert_here
from tests.support.rerank_server import running_reranker

pytestmark = pytest.mark.django_db

SAMPLE: dict[str, Any] = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Bob",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "I adopted a parrot last week."},
            {"speaker": "Bob", "dia_id": "D1:2", "text": "Lovely! What is it called?"},
            {"speaker": "Ada", "dia_id": "D1:3", "text": "By the way, my bicycle was stolen."},
            {"speaker": "Bob", "dia_id": "D1:4", "text": "Oh no, did you report it?"},
        ],
    },
    "qa": [{"question": "Which bird did Ada adopt?", "answer": "a parrot", "evidence": ["D1:1"], "category": 4}],
}


def test_set_is_loaded_measured_and_deleted(tmp_path: Path) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([SAMPLE]), encoding="utf-8")
    out = StringIO()
    call_command(evaluate.Command(), "locomo", "--data", str(file), "--json", stdout=out, stderr=StringIO())
    report = json.dumps(json.loads(out.getvalue()))
    assert '"hit@1": 1.0' in report
    assert not User.objects.exists()


def test_silence_is_measured_and_calibration_fitted(tmp_path: Path) -> None:
    other = json.loads(
        json.dumps(SAMPLE).replace("parrot", "dog").replace("D1", "D2").replace("session_1", "session_2")
    )
    asked = [*SAMPLE["qa"], {"question": "Which bird did Bob adopt?", "evidence": ["D1:1"], "category": 5}]
    two_sessions = SAMPLE | {"conversation": SAMPLE["conversation"] | other["conversation"], "qa": asked}
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([two_sessions]), encoding="utf-8")
    out = StringIO()
    call_command(
        evaluate.Command(), "locomo", "--data", str(file), "--silence", "--fit-relevance", "--archive-turns", "1",
        stdout=out, stderr=StringIO(),
    )  # fmt: skip
    report = json.loads(out.getvalue())
    silenced = report["locomo"]["silenced"]
    assert {"answered", "taken away", "adversarial", "few words"} <= set(silenced)
    assert silenced["answered"] == {"share": 0.0, "from": 0.0, "to": silenced["answered"]["to"], "of": 1}
    assert set(report["fit"]) == {"hybrid", "left out", "left out, all sets", "strong hits left out"}
    assert report["locomo, 1 turns"]["questions"] > 0
    assert {figures["hits"] for figures in report["fit"]["strong hits left out"].values()} <= set(range(99))
    calibration = read_calibrations({"some-model": {"hybrid": report["fit"]["hybrid"]}})["some-model"]["hybrid"]
    assert calibration.hit
    for odds in (calibration.anything, calibration.hit):
        assert all(map(isfinite, [odds.intercept, *odds.weights.values()]))
    assert not User.objects.exists()


def test_evaluate_measures_recall_of_messages_and_contexts(tmp_path: Path) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([SAMPLE]), encoding="utf-8")
    out = StringIO()
    arguments = ["locomo", "--data", str(file), "--messages", "--fit"]
    call_command(evaluate.Command(), *arguments, "--json", stdout=out, stderr=StringIO())
    report = json.loads(out.getvalue())
    figures = report["locomo"]["all"]
    assert (figures["questions"], figures["recall@5"]) == (1, 1.0)
    assert (figures["in_context_with_partners"], figures["in_context_without_partners"]) == (1.0, 1.0)
    assert set(report["fit"]) == {"messages", "messages_full_text"}
    small = StringIO()
    call_command(evaluate.Command(), *arguments, "--budget", "40", stdout=small, stderr=StringIO())
    assert "ctx with" in small.getvalue()
    assert not User.objects.exists()


def test_folder_without_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no"):
        call_command(evaluate.Command(), "samples", "--data", str(tmp_path), stdout=StringIO(), stderr=StringIO())


def test_library_is_loaded_measured_and_deleted(
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    settings.MEDIA_ROOT = tmp_path / "media"
    monkeypatch.setattr(processing, "run_child", convert_here)
    answer = "The greenhouse opens at seven in the morning."
    (tmp_path / "garden.md").write_text(f"# Garden\n\n{answer} It is warm there.\n", encoding="utf-8")
    (tmp_path / "kitchen.md").write_text("# Kitchen\n\nBread is baked on Fridays.\n", encoding="utf-8")
    start = len("# Garden\n\n")
    references = json.dumps([{"content": answer, "start_index": start, "end_index": start + len(answer)}])
    with (tmp_path / "questions_df.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "references", "corpus_id"])
        rows.writerow(["When does the greenhouse open?", references, "garden"])
    out = StringIO()
    with django_capture_on_commit_callbacks(execute=True):
        call_command(evaluate.Command(), "documents", "--data", str(tmp_path), "--json", stdout=out, stderr=StringIO())
    report = json.loads(out.getvalue())
    assert report["questions"] == 1
    assert report["section_recall@1"] == report["passage_recall@1"] == report["chunk_recall@1"] == 1.0
    assert report["section_iou@1"] <= report["passage_iou@1"]
    assert not User.objects.exists()
    assert not [path for path in (tmp_path / "media").rglob("*") if path.is_file()]


NAMES = ("Ada", "Bob", "Cy", "Di", "Eve", "Flo", "Gus", "Hal")


def is_meant(text: str) -> bool:
    """Of two lines that answer equally well, whether it is the labelled one: by turns the first and the second."""
    return any(f"{name} adopted a parrot, parrot number {1 + n % 2}" in text for n, name in enumerate(NAMES))


def two_parrots() -> dict[str, Any]:
    """A set in which the fused order has to guess."""
    lines = [f"{name} adopted a parrot, parrot number {number}." for name in NAMES for number in (1, 2)]
    said = [
        {"speaker": speaker, "dia_id": f"D{number}:{place}", "text": text}
        for place, line in enumerate(lines, 1)
        for number, (speaker, text) in enumerate((("Ada", line), ("Bob", "Noted.")), 1)
    ]
    questions = [
        {
            "question": f"Which parrot did {name} adopt?",
            "answer": "",
            "evidence": [f"D1:{2 * n + 1 + n % 2}"],
            "category": 4,
        }
        for n, name in enumerate(NAMES)
    ]
    return {"sample_id": "conv-2", "conversation": SAMPLE["conversation"] | {"session_1": said}, "qa": questions}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("judge", "is_good"), [(is_meant, True), (lambda text: not is_meant(text), False)], ids=["knows", "is wrong"]
)
def test_reranker_gets_weight_that_questions_ask_for(
    tmp_path: Path, settings: Settings, judge: Any, is_good: bool
) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([two_parrots()]), encoding="utf-8")
    with running_reranker(scores=lambda documents: [float(judge(text)) for text in documents]) as server:
        settings.RERANK_URL, settings.RERANK_API_KEY, settings.RERANK_MODEL = server.url, server.key, "judge"
        out = StringIO()
        call_command(evaluate.Command(), "locomo", "--data", str(file), "--fit-reranker", "--json", stdout=out)
    reranking.close_connections()
    report = json.loads(out.getvalue())
    kept = RerankerWeight.objects.get(name="judge")
    assert report["reranker"] == "judge"
    assert report["questions"] == kept.questions == 8
    assert report["weight"] == kept.weight
    assert (kept.weight > 0) is is_good
    assert not User.objects.exists()


def test_fit_reranker_without_rerank_url_is_refused(tmp_path: Path, settings: Settings) -> None:
    settings.RERANK_URL = ""
    with pytest.raises(CommandError, match="RERANK_URL"):
        call_command(evaluate.Command(), "locomo", "--data", str(tmp_path), "--fit-reranker", stdout=StringIO())
