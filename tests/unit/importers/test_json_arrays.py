import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from convmemory.conversations.importers import json_arrays, lines
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.json_arrays import read_elements
from convmemory.core.errors import InvalidInput


@pytest.fixture(autouse=True, params=[7, 1024**2], ids=["tiny chunks", "whole"])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with chunks of 7 bytes and with whole files."""
    monkeypatch.setattr(json_arrays, "CHUNK_BYTES", request.param)


@pytest.fixture
def few_values_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand values are too many, and less than half of that many are in one chunk."""
    monkeypatch.setattr(lines, "MAX_VALUES", 1_000)
    monkeypatch.setattr(json_arrays, "CHUNK_BYTES", min(json_arrays.CHUNK_BYTES, 1_000))


def elements(tmp_path: Path, data: str | bytes, *names: str) -> tuple[list[Any], FileReport]:
    path = tmp_path / "a.json"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    report = FileReport(path="a.json")
    return [element.value for element in read_elements(path, report=report, names=names)], report


def test_array_of_any_values_is_read(tmp_path: Path) -> None:
    values = [{"a": ['x"]}', {"b": "\\"}]}, "y,[", 12, -1.5e3, None, True, [], {}, "ü😀"]
    for text in (json.dumps(values), json.dumps(values, indent=2, ensure_ascii=False), "\ufeff" + json.dumps(values)):
        items, report = elements(tmp_path, text)
        assert items == values
        assert report.skipped == 0


def test_array_under_name_and_single_object(tmp_path: Path) -> None:
    assert elements(tmp_path, '{"version": {"a": 1}, "conversations": [1, 2]}', "conversations")[0] == [1, 2]
    assert elements(tmp_path, '{"title": "x", "mapping": [1]}', "conversations")[0] == [{"title": "x", "mapping": [1]}]
    assert elements(tmp_path, "")[0] == []


def test_broken_element_is_reported_and_others_read(tmp_path: Path) -> None:
    items, report = elements(tmp_path, '[{"a": 1}, {"b": "\\x", "c": [1]}, {"d": 2}]')
    assert items == [{"a": 1}, {"d": 2}]
    assert report.skipped == 1
    assert "element 2" in report.issues[0].place
    assert "not readable JSON" in report.issues[0].reason


def test_truncated_array_yields_whole_elements_and_issue(tmp_path: Path) -> None:
    whole = json.dumps([{"n": number, "text": 'a "quote" \\ here'} for number in range(3)])
    for end in range(len(whole)):
        items, report = elements(tmp_path, whole[:end])
        assert items == [{"n": number, "text": 'a "quote" \\ here'} for number in range(len(items))]
        assert report.skipped == int(end > 0)


@pytest.mark.usefixtures("few_values_allowed")
def test_element_of_too_many_values_is_passed_over(tmp_path: Path) -> None:
    items, report = elements(tmp_path, "[1, [" + "0," * 2_000 + '0], {"a": 2}]')
    assert items == [1, {"a": 2}]
    assert "more than 1,000,000 values" in report.issues[0].reason


@pytest.mark.usefixtures("few_values_allowed")
def test_many_elements_of_few_values_are_read(tmp_path: Path) -> None:
    data = "[" + "[0,0,0,0],\n" * 3_000 + "7]"
    items, report = elements(tmp_path, data)
    assert (len(items), items[-1], report.skipped) == (3_001, 7, 0)


def test_element_that_is_too_long_ends_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_arrays, "MAX_ELEMENT_CHARS", 50)
    items, report = elements(tmp_path, '[1, "' + "x" * (3 * json_arrays.CHUNK_BYTES + 1_000) + '", 2]')
    assert items[0] == 1
    assert report.skipped + len(items) >= 2


def test_plain_text_is_refused_as_document(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="neither"):
        elements(tmp_path, "hello")


def test_compressed_document(tmp_path: Path) -> None:
    assert elements(tmp_path, zstandard.compress(b"[1, 2]"))[0] == [1, 2]
    with pytest.raises(InvalidInput, match="zstd"):
        elements(tmp_path, b"\x28\xb5\x2f\xfd" + b"junk" * 10)


def test_document_of_nothing_but_broken_elements_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no JSON: export it again"):
        elements(tmp_path, "[" + "![](" * 5_000)
