"""JSON of unknown programs: the mapping that is proposed for it, and reading by a mapping."""

import json
from pathlib import Path
from typing import Any

import pytest

from convmemory.conversations.importers.mapping import Preview, importer_of, preview, proposed_mapping, read_mapping
from convmemory.core.errors import InvalidInput
from tests.unit.importers.helpers import read, write_lines

SAID = ("Is rye sour?", "Only with a levain.", "And wheat bread?", "Not by itself.")


def turns(speaker: str, text_name: str, names: tuple[str, str], **values: Any) -> list[dict[str, Any]]:
    """Two questions with their answers, under these names."""
    return [{speaker: name, text_name: text, **values} for name, text in zip(names * 2, SAID, strict=True)]


def rooms() -> Any:
    log = turns("author", "body", ("me", "helper"), when=1769936400)
    return {
        "version": 2,
        "rooms": [{"id": "room-0001", "subject": "Bread", "turns": log}, {"id": "room-0002", "turns": log[:2]}],
    }


def keyed() -> Any:
    log = [{"sender": {"kind": name}, "payload": {"words": text}} for name, text in zip("QAQA", SAID, strict=True)]
    return {"store": {"talks": {"a1b2c3d4e5": {"log": log}, "f6a7b8c9d0": {"log": log[:2]}}}}


def deep() -> Any:
    log = [{"persona": name, "words": text} for name, text in zip("QAQA", SAID, strict=True)]
    items = [{"ident": ident, "exchange": {"lines": lines}} for ident, lines in (("z1", log), ("z2", log[:2]))]
    return {"data": {"workspace": {"dialogues": {"items": items}}}}


SHAPES = {"rooms": rooms(), "keyed": keyed(), "deep": deep()}


@pytest.mark.parametrize("name", SHAPES)
def test_mapping_is_proposed_for_conversations_of_unknown_program(name: str, tmp_path: Path) -> None:
    path = tmp_path / "unknown.json"
    path.write_text(json.dumps(SHAPES[name]))
    mapping = proposed_mapping(path)
    assert mapping is not None
    assert preview(importer_of(mapping), path) == Preview(2, 6, "Is rye sour?", 0)
    first, second = read(importer_of(mapping), path)
    assert (first.prompts, second.prompts) == (["Is rye sour?", "And wheat bread?"], ["Is rye sour?"])
    assert first.draft.source_id != second.draft.source_id
    assert first.draft.title == ("Bread" if name == "rooms" else "")


@pytest.mark.parametrize("name", ["chat_id", "room"])
def test_mapping_is_proposed_for_lines_that_name_their_conversation(name: str, tmp_path: Path) -> None:
    log = turns("speaker", "line", ("human", "oracle"))
    path = write_lines(tmp_path / "log.jsonl", [{**turn, name: chat} for chat in ("one", "two") for turn in log])
    mapping = proposed_mapping(path)
    assert mapping is not None
    assert mapping["roles"] == {"oracle": "assistant"}
    ids = [item.draft.source_id for item in read(importer_of(mapping), path)]
    assert [each.partition(":")[0] for each in ids] == ["one", "two"]


@pytest.mark.parametrize("value", [{"rows": [{"a": 1}, {"a": 2}]}, [], {"people": [{"name": "Ada B", "city": "Ulm"}]}])
def test_nothing_is_proposed_for_other_data(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(value))
    assert proposed_mapping(path) is None


def test_kept_mapping_reads_file(tmp_path: Path) -> None:
    path, kept = tmp_path / "unknown.json", tmp_path / "map.json"
    path.write_text(json.dumps(SHAPES["rooms"]))
    kept.write_text(json.dumps({**(proposed_mapping(path) or {}), "name": "bread-club"}))
    importer = read_mapping(kept)
    assert {item.draft.source for item in read(importer, path)} == {"bread-club"}


@pytest.mark.parametrize(
    ("field", "value"), [("texts", "a"), ("text", 3), ("roles", {"me": "person"}), ("name", "../x"), ("entries", "all")]
)
def test_wrong_field_of_mapping_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"`{field}`"):
        importer_of({field: value})


def test_mapping_cannot_have_name_of_known_format() -> None:
    with pytest.raises(InvalidInput, match="that of a known format, chatgpt"):
        importer_of({"name": "chatgpt", "role": "who", "text": "say"})


def test_places_three_levels_deep_are_proposed(tmp_path: Path) -> None:
    rows = [{"session_id": "s-1", "message": {"type": who, "data": {"content": text}}}
            for who, text in (("human", "How do I prune a quince?"), ("ai", "In late winter."))]  # fmt: skip
    mapping = proposed_mapping(write_lines(tmp_path / "rows.jsonl", rows))
    assert mapping is not None
    assert (mapping["role"], mapping["text"], mapping["group"]) == (
        "message.type", "message.data.content", "session_id")  # fmt: skip
