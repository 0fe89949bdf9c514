"""Rules that hold for every importer, over all fixtures of its format, whole and damaged."""

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.detect import IMPORTERS, Walk
from convmemory.conversations.importers.values import mapping_of
from convmemory.conversations.messages.parts import part_from_json, part_to_json
from convmemory.core.errors import InvalidInput, TooLarge
from tests.unit.importers.helpers import FIXTURES

FORMATS_OF_FOLDERS = {path.name for path in FIXTURES.iterdir()}
WITHOUT_FIXTURES = {"convmemory"}  # its fixtures are exports, made in tests/surfaces
SUFFIXES = (".json", ".jsonl", ".html")
# Parts of what others say.
READ_WITH_OTHERS = (
    *("opencode/storage/", "vscode-copilot/workspace.json", "jan/threads/jan_01/thread.json"),
    "kiro-workspace/workspace-sessions/L2hvbWUvYWRhL3BhbnRyeQ/sessions.json",
    *("grok-build/session/summary.json", "kimi-code/s/state.json", "mistral-vibe/session/meta.json"),
)
FILES = sorted(
    path
    for path in FIXTURES.rglob("*")
    if path.suffix in SUFFIXES
    and ".meta" not in path.suffixes
    and not path.relative_to(FIXTURES).as_posix().startswith(READ_WITH_OTHERS)
)
FOREIGN_VALUES: tuple[Any, ...] = ({}, [[{}]], float("inf"), 10**30, "\ud800")
EVERY_FOREIGN_VALUE = "EVERY_FOREIGN_VALUE" in os.environ
SEEDS = 10 if EVERY_FOREIGN_VALUE else 2
UNKNOWN = {"type": "from-the-future", "payload": {"type": "unheard-of"}, "mystery": [1, {"a": None}]}


def name_of_format(path: Path) -> str:
    return path.relative_to(FIXTURES).parts[0]


FIRST_FILES = FILES if EVERY_FOREIGN_VALUE else list({name_of_format(path): path for path in reversed(FILES)}.values())


@pytest.fixture(params=FILES, ids=lambda path: "/".join(path.relative_to(FIXTURES).parts)[-60:])
def original(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def keys_of(path: Path, *, former: bool = False) -> dict[str, list[str]]:
    """The keys of all messages by conversation, as the importer of the file's format finds them.

    With `former`, also by the ids that the conversation had in imports of earlier states of the file.
    """
    found: dict[str, list[str]] = {}
    for item in Walk().over([path]):
        if item.importer is None:
            continue
        report = FileReport(path=path.name)
        with suppress(InvalidInput, TooLarge):  # a refusal
            for draft in item.importer.parse(item.source, report):
                assert draft.source_id
                assert draft.source
                keys = found.setdefault(draft.source_id, [])
                if former:
                    found.update((name, keys) for name in draft.former_ids if name not in found)
                for message in draft.messages:
                    assert message.source_key
                    assert [part_from_json(part_to_json(part)) for part in message.parts]
                    keys.append(message.source_key)
                list(draft.events)
        json.dumps(report.to_json())
    return found


def copied(original: Path, folder: Path, data: bytes) -> Path:
    """The data under the original's name, with the folders that its format looks at."""
    path = folder / original.relative_to(FIXTURES)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_every_importer_has_fixtures_checked_version_and_file_names() -> None:
    assert set(IMPORTERS) - WITHOUT_FIXTURES == FORMATS_OF_FOLDERS
    for importer in IMPORTERS.values():
        assert importer.checked.program
        assert importer.checked.version
        assert importer.reads.suffixes or importer.reads.folders


def test_importer_of_its_format_takes_fixture(original: Path) -> None:
    (found,) = Walk().over([original])
    assert found.importer is not None
    assert found.importer.name == name_of_format(original)
    assert found.importer.sniff(Source(found.source.path))


def test_no_importer_claims_fixture_of_another_more_clearly(original: Path) -> None:
    source = Source(original)
    scores = {name: importer.sniff(source) or 0 for name, importer in IMPORTERS.items()}
    own = scores.pop(name_of_format(original))
    assert not original.is_file() or not own or own > max(scores.values())


def test_reading_twice_finds_same_names(original: Path) -> None:
    first = keys_of(original)
    assert keys_of(original) == first
    for keys in first.values():
        assert len(set(keys)) == len(keys)


def test_truncated_file_yields_its_beginning_or_reason(original: Path, tmp_path: Path) -> None:
    data = original.read_bytes()
    whole = keys_of(copied(original, tmp_path, data), former=True)
    for tenth in range(10):
        beginning = keys_of(copied(original, tmp_path, data[: len(data) * tenth // 10]))
        if original.suffix == ".jsonl":
            for name, keys in beginning.items():
                # What was queued may be sent further on, and then has the key of that message.
                if not keys:
                    continue  # a header alone is not stored
                sent, of_whole = ([key for key in some if not key.startswith("queue:")] for some in (keys, whole[name]))
                assert sent == of_whole[: len(sent)], tenth


def test_flipped_bits_are_read_or_refused(original: Path, tmp_path: Path) -> None:
    for seed in range(SEEDS):
        data, dice = bytearray(original.read_bytes()), random.Random(seed)
        for _ in range(1 + seed * 4):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        keys_of(copied(original, tmp_path, bytes(data)))


def test_shuffled_entries_are_read_or_refused(original: Path, tmp_path: Path) -> None:
    for seed in range(SEEDS):
        keys_of(copied(original, tmp_path, changed(original, random.Random(seed).shuffle)))


def test_repeated_entries_add_nothing(original: Path, tmp_path: Path) -> None:
    """Producers repeat what they wrote: a message that names itself is one message."""

    def repeat(entries: list[Any]) -> None:
        entries.extend(list(entries))

    whole = keys_of(copied(original, tmp_path, original.read_bytes()))
    repeated = keys_of(copied(original, tmp_path, changed(original, repeat)))
    assert repeated.keys() >= {name for name in whole if whole[name]} or name_of_format(original) == "plain"


def test_entries_of_unknown_types_do_not_affect_others(original: Path, tmp_path: Path) -> None:
    def add(entries: list[Any]) -> None:
        entries.insert(len(entries) // 2 + 1, UNKNOWN)

    whole = known_keys(keys_of(copied(original, tmp_path, original.read_bytes())))
    with_unknown = keys_of(copied(original, tmp_path, changed(original, add)))
    for name, keys in whole.items():
        if name_of_format(original) not in ("plain", "amplifier"):  # messages without ids: named by their place
            assert known_keys(with_unknown).get(name) == keys


def test_values_of_any_other_kind_are_read_or_refused(original: Path, tmp_path: Path) -> None:
    """Each value of the file in turn is replaced by one foreign value, or by all of them in `make trials`.

    Of values at like places in entries of one type, the first is replaced.
    """
    for data in with_foreign_values(original):
        keys_of(copied(original, tmp_path, data))


def with_foreign_values(original: Path) -> Iterator[bytes]:
    lines = original.read_bytes().split(b"\n") if original.suffix == ".jsonl" else [original.read_bytes()]
    seen: set[tuple[str, ...]] = set()
    one_of_them = cycle(FOREIGN_VALUES)
    for number, line in enumerate(lines):
        with suppress(ValueError):  # no JSON
            value = json.loads(line)
            for holder, key, place in places_in(value, (str(mapping_of(value).get("type")),)):
                if place not in seen:
                    seen.add(place)
                    values = FOREIGN_VALUES if EVERY_FOREIGN_VALUE else [next(one_of_them)]
                    for changed_line in replaced(value, holder, key, values):
                        yield b"\n".join([*lines[:number], changed_line, *lines[number + 1 :]])


def places_in(value: Any, place: tuple[str, ...]) -> Iterator[tuple[Any, Any, tuple[str, ...]]]:
    """Each holder of a value, its key there, and the keys that lead to it; all places of a list are alike."""
    keyed = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in list(keyed):
        its_place = (*place, key if isinstance(key, str) else "*")
        yield value, key, its_place
        yield from places_in(held, its_place)


def replaced(value: Any, holder: Any, key: Any, foreign_values: Iterable[Any]) -> Iterator[bytes]:
    """Yield the whole value as JSON, with each of the foreign values at this key."""
    original = holder[key]
    for holder[key] in foreign_values:
        yield json.dumps(value).encode()
    holder[key] = original


def known_keys(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the keys without those of entries of unknown type."""
    return {name: [key for key in keys if not key.startswith("unknown:")] for name, keys in found.items()}


def changed(original: Path, change: Callable[[list[Any]], None]) -> bytes:
    """The file with its entries changed: its lines, or the elements of the document's array."""
    text = original.read_bytes().decode("utf-8", "surrogateescape")
    if original.suffix == ".jsonl":
        entries: list[Any] = [line for line in text.split("\n") if line.strip()]
        change(entries)
        lines = (entry if isinstance(entry, str) else json.dumps(entry) for entry in entries)
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    if original.suffix == ".json" and isinstance(value := json.loads(text), list):
        change(value)
        return json.dumps(value).encode()
    return original.read_bytes()


@pytest.mark.parametrize("original", FIRST_FILES, ids=name_of_format, indirect=True)
def test_given_format_reads_or_refuses_any_file(original: Path) -> None:
    for importer in IMPORTERS.values():
        for found in Walk(format=importer.name).over([original]):
            assert found.importer is not None or found.reason
            if found.importer is not None:
                consume(found.importer.parse(found.source, FileReport(path="")))


def consume(drafts: Iterator[Any]) -> None:
    with suppress(InvalidInput, TooLarge):  # a refusal
        for draft in drafts:
            list(draft.messages)
