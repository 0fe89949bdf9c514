"""`manage.py evaluate` on a tiny set in LoCoMo's shape, and the own samples' refusal of an empty folder."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

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


def test_a_set_is_loaded_measured_and_deleted(tmp_path: Path) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([SAMPLE]), encoding="utf-8")
    out = StringIO()
    call_command("evaluate", "locomo", "--data", str(file), "--json", stdout=out, stderr=StringIO())
    report = json.dumps(json.loads(out.getvalue()))
    assert '"hit@1": 1.0' in report
    assert not User.objects.exists()


def test_recall_of_messages_is_measured_with_what_a_context_holds(tmp_path: Path) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([SAMPLE]), encoding="utf-8")
    out = StringIO()
    arguments = ["locomo", "--data", str(file), "--messages", "--fit"]
    call_command("evaluate", *arguments, "--json", stdout=out, stderr=StringIO())
    report = json.loads(out.getvalue())
    figures = report["locomo"]["all"]
    assert (figures["questions"], figures["recall@5"]) == (1, 1.0)
    assert (figures["in_context_with_partners"], figures["in_context_without_partners"]) == (1.0, 1.0)
    assert set(report["fit"]) == {"messages", "messages_full_text"}
    small = StringIO()
    call_command("evaluate", *arguments, "--budget", "40", stdout=small, stderr=StringIO())
    assert "ctx with" in small.getvalue()
    assert not User.objects.exists()


def test_a_folder_without_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no"):
        call_command("evaluate", "samples", "--data", str(tmp_path), stdout=StringIO(), stderr=StringIO())
