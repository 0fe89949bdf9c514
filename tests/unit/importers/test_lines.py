import io
import json
import tracemalloc
from pathlib import Path

import pytest

from convmemory.conversations.importers import lines
from convmemory.conversations.importers import lines as bounds
from convmemory.conversations.importers.lines import (
    JsonObject,
    has_too_many_values,
    objects_of_line,
    read_objects,
    read_objects_at,
    too_many_values,
)
from convmemory.core.errors import InvalidInput


class Issues:
    def __init__(self) -> None:
        self.all: list[tuple[int, str, bool]] = []

    def __call__(self, number: int, reason: str, *, kept: bool) -> None:
        self.all.append((number, reason, kept))


def objects(path: Path, data: bytes) -> tuple[list[JsonObject], Issues]:
    path.write_bytes(data)
    issues = Issues()
    return list(read_objects(path, on_issue=issues)), issues


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines.jsonl"


def test_lines_yield_objects_with_place_and_bytes(path: Path) -> None:
    items, issues = objects(path, b'{"a": 1}\r\n\n  {"b": 2}  \n')
    assert [(item.number, item.index, item.offset, item.value, item.raw) for item in items] == [
        (1, 0, 0, {"a": 1}, b'{"a": 1}'),
        (3, 0, 11, {"b": 2}, b'{"b": 2}'),
    ]
    assert issues.all == []


def test_several_objects_on_one_line(path: Path) -> None:
    items, issues = objects(path, '{"a": "é"}{"b": 2} {"c": 3}\n'.encode())
    assert [(item.index, item.value, item.raw) for item in items] == [
        (0, {"a": "é"}, '{"a": "é"}'.encode()),
        (1, {"b": 2}, b'{"b": 2}'),
        (2, {"c": 3}, b'{"c": 3}'),
    ]
    assert issues.all == []


def test_comments_and_byte_order_mark_are_no_issue(path: Path) -> None:
    items, issues = objects(path, b'\xef\xbb\xbf// from the docs\n{"a": 1}\n')
    assert [item.value for item in items] == [{"a": 1}]
    assert issues.all == []


@pytest.mark.parametrize(
    ("line", "what"),
    [("12", "a number"), ('"text"', "a string"), ("[1]", "a list"), ("null", "null"), ("true", "true or false")],
)
def test_line_that_is_no_object_is_reported(path: Path, line: str, what: str) -> None:
    items, issues = objects(path, f'{line}\n{{"a": 1}}\n'.encode())
    assert [item.number for item in items] == [2]
    assert issues.all == [(1, f"{what} where an object belongs", False)]


def test_last_line_that_was_cut_off(path: Path) -> None:
    items, issues = objects(path, b'{"a": 1}\n{"b": "so')
    assert len(items) == 1
    ((number, reason, kept),) = issues.all
    assert (number, kept) == (2, False)
    assert reason.startswith("the last line is cut off")


def test_object_after_broken_one_is_read(path: Path) -> None:
    items, issues = objects(path, b'{"type":"user","message":{"role":"us{"type":"summary","n":{"type":"x"}}\n')
    assert [item.value["type"] for item in items] == ["summary"]
    assert len(issues.all) == 1


def test_inner_object_of_broken_one_is_not_taken_for_line(path: Path) -> None:
    items, issues = objects(path, b'{"type":"user" BROKEN "message":{"role":"user","content":"no"}}\n')
    assert items == []
    assert len(issues.all) == 1


def test_invalid_utf8_is_replaced_and_reported(path: Path) -> None:
    items, issues = objects(path, b'{"a": "caf\xe9"}\n')
    assert items[0].value == {"a": "caf\ufffd"}
    assert issues.all == [(1, "invalid UTF-8 was replaced", True)]


def test_nul_characters(path: Path) -> None:
    items, issues = objects(path, b'\0\0\0\n{"a": "x\0y"}\n')
    assert [item.value for item in items] == [{"a": "xy"}]
    assert issues.all == [(1, "nothing but NUL characters", False), (2, "NUL characters were left out", True)]


def test_raw_control_characters_in_strings_are_taken(path: Path) -> None:
    items, _ = objects(path, b'{"a": "tab\there"}\n')
    assert items[0].value == {"a": "tab\there"}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"n":' + "1" * 10_000 + "}"])
def test_line_that_exceeds_json_limits_is_skipped(path: Path, text: str) -> None:
    items, issues = objects(path, f'{text}\n{{"a": 1}}\n'.encode())
    assert [item.number for item in items] == [2]
    assert [number for number, _, _ in issues.all] == [1]


def test_line_of_15_mb_is_read_and_one_of_17_mb_is_reported(path: Path) -> None:
    text = "".join(["x" * 1024 * 1023, ",[{" * 341])  # what stands in strings is no value
    line = b'{"a": "%s"}\n'
    items, issues = objects(path, line % (text.encode() * 15) + line % (text.encode() * 17) + b'{"b": 1}\n')
    assert [(item.number, len(item.raw)) for item in items] == [(1, 15 * len(text) + 9), (3, 8)]
    ((number, reason, kept),) = issues.all
    assert (number, kept) == (2, False)
    assert reason.startswith("the line is longer than 16 MB: divide it")


@pytest.mark.slow
def test_line_of_million_values_is_reported_without_memory_for_them(path: Path) -> None:
    tracemalloc.start()
    items, issues = objects(path, b'{"a": [{}' + b",{}" * 1_100_000 + b']}\n{"b": 1}\n')
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [item.number for item in items] == [2]
    assert issues.all == [(1, too_many_values("the line"), False)]
    assert peak < 100 * 1024**2


@pytest.mark.parametrize("value", [b"{}", b"[]", b"0", b'""', b'{"":0}'])
def test_values_of_each_kind_count_towards_limit_of_line(
    path: Path, monkeypatch: pytest.MonkeyPatch, value: bytes
) -> None:
    monkeypatch.setattr(bounds, "MAX_VALUES", 1_000)
    line = b'{"a": [' + value + (b"," + value) * 1_100 + b']}\n{"b": 1}\n'
    items, issues = objects(path, line)
    assert [item.number for item in items] == [2]
    assert issues.all == [(1, too_many_values("the line"), False)]


def test_separators_inside_strings_are_no_values() -> None:
    csv = "1,2,{3,[4\n" * 300_000
    assert not has_too_many_values(json.dumps({"table": csv, "quoted": f'"{csv}"', "escaped": "\\" * 9}))
    assert has_too_many_values(f'{{"open": "{csv}", "list": [{csv * 2}')


def test_absurdly_long_line_is_skipped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    monkeypatch.setattr(lines, "CHUNK_BYTES", 16)
    items, issues = objects(path, b'{"a": 1}\n' + b"y" * 1000 + b'\n{"b": 2}\n')
    assert [(item.number, item.offset) for item in items] == [(1, 0), (3, 1010)]
    assert [(number, kept) for number, _, kept in issues.all] == [(2, False)]


def test_reading_ends_where_file_ended_at_first(path: Path) -> None:
    path.write_bytes(b'{"a": 1}\n{"b": 2}\n{"c": 3}\n')
    assert [item.value for item in read_objects(path, until=9)] == [{"a": 1}]
    assert [item.value for item in read_objects(path, until=12)] == [{"a": 1}]


def test_single_places_are_read_again(path: Path) -> None:
    items, _ = objects(path, b'{"a": 1}\n{"b": 2}{"c": 3}\n{"d": 4}\n')
    places = [(item.offset, item.number, item.index) for item in items if "c" in item.value or "d" in item.value]
    again = list(read_objects_at(path, places, until=path.stat().st_size))
    assert [item.value for item in again] == [{"c": 3}, {"d": 4}]


def test_missing_file_is_invalid_input(path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"lines\.jsonl cannot be read: No such file"):
        list(read_objects(path))


def test_error_while_reading_is_invalid_input(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    path.write_bytes(b"{}\n")
    monkeypatch.setattr(Path, "open", lambda *_: Failing())
    with pytest.raises(InvalidInput, match="Input/output error"):
        list(read_objects(path))


def test_empty_line_has_no_objects() -> None:
    assert list(objects_of_line(b"  \n", number=1)) == []
