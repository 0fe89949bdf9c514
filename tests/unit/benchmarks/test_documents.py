"""The measures of spans: by hand, on small cases."""

from pathlib import Path

import pytest

from benchmarks.documents import SpanQuestion, read_questions, recall_and_iou, union
from convmemory.core.errors import InvalidInput

QUESTION = SpanQuestion("where?", "a", ((0, 10), (20, 30)))


def test_spans_that_touch_are_one() -> None:
    assert union([(5, 9), (0, 5), (20, 21), (8, 12)]) == ((0, 12), (20, 21))


def test_recall_and_iou_of_characters() -> None:
    assert recall_and_iou(QUESTION, [("a", 0, 10), ("a", 20, 30)]) == (1.0, 1.0)
    assert recall_and_iou(QUESTION, [("a", 5, 25), ("a", 5, 25)]) == (0.5, 10 / 30)
    assert recall_and_iou(QUESTION, [("b", 0, 10), ("a", 0, 10)]) == (0.5, 10 / 30)
    assert recall_and_iou(QUESTION, []) == (0.0, 0.0)


def test_questions_are_read(tmp_path: Path) -> None:
    (tmp_path / "questions_df.csv").write_text(
        'question,references,corpus_id\nwhere?,"[{""start_index"": 0, ""end_index"": 10}]",a\n', encoding="utf-8"
    )
    assert read_questions(tmp_path) == [SpanQuestion("where?", "a", ((0, 10),))]
    with pytest.raises(InvalidInput):
        read_questions(tmp_path / "elsewhere")
