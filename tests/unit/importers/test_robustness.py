"""Whatever a file holds, an importer reads it, skips parts of it or raises InvalidInput; nothing else."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.detect import IMPORTERS, DetectedSource, Walk
from convmemory.conversations.messages.parts import part_to_json
from convmemory.core.errors import InvalidInput, TooLarge
from tests.unit.importers.helpers import FIXTURES

EXAMPLES = settings().max_examples
FILES = sorted(path for path in FIXTURES.rglob("*") if path.suffix in (".json", ".jsonl"))

pieces = st.sampled_from(
    [
        b"\0",
        b"\xff\xfe",
        b"\n",
        b"\r",
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b"null",
        b"[]",
        b"1e999",
        b"\\ud800",
        b"//",
    ]
)
edits = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 40), pieces | st.binary(max_size=3)), max_size=8
)


def changed(data: bytes, cut_at: float, changes: list[tuple[float, int, bytes]]) -> bytes:
    """The data with bytes replaced at some places (given as fractions of its length), cut at the end."""
    for start, removed, added in changes:
        at = int(start * len(data))
        data = data[:at] + added + data[at + removed :]
    return data[: int(cut_at * len(data)) + 1]


def read_all(sources: Iterator[DetectedSource]) -> None:
    for item in sources:
        importers = [item.importer] if item.importer else list(IMPORTERS.values())
        for importer in importers:
            report = FileReport(path=item.source.label)
            try:
                for draft in importer.parse(item.source, report):
                    assert draft.source_id
                    for message in draft.messages:
                        assert message.source_key
                        assert [part_to_json(part) for part in message.parts]
                    for event in draft.events:
                        assert event.type
            except (InvalidInput, TooLarge):
                pass
            assert report.to_json()["path"] == report.path


@pytest.mark.slow  # its first example is always one byte of the file: `make test` damages files in test_importers.py
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name[:8]}-{path.name[:20]}")
@settings(max_examples=EXAMPLES // 5, suppress_health_check=[HealthCheck.too_slow])
@given(cut_at=st.floats(0, 1), changes=edits)
def test_truncated_and_damaged_files(path: Path, cut_at: float, changes: list[tuple[float, int, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "sessions" / "4c2f9b1e_x" / path.name
        target.parent.mkdir(parents=True)
        target.write_bytes(changed(path.read_bytes(), cut_at, changes))
        read_all(Walk().over([target.parent.parent]))


@given(data=st.binary(max_size=2000), name=st.sampled_from(["a.jsonl", "a.json", "agent-1.jsonl", "transcript.jsonl"]))
def test_arbitrary_bytes(data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        read_all(Walk().over([path]))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["user", "text", "tool_use"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "type",
                        "message",
                        "content",
                        "role",
                        "text",
                        "uuid",
                        "id",
                        "attachment",
                        "prompt",
                        "operation",
                        "data",
                    ),
                    *(
                        "parentUuid",
                        "isSidechain",
                        "sessionId",
                        "origin",
                        "kind",
                        "tool_calls",
                        "function",
                        "messages",
                        "source",
                    ),
                    *(
                        "image_url",
                        "summary",
                        "leafUuid",
                        "event",
                        "input",
                        "arguments",
                        "timestamp",
                        "metadata",
                        "agentId",
                    ),
                ]
            ),
            inner,
            max_size=8,
        )
    ),
    max_leaves=25,
)
kinds = st.sampled_from(["user", "assistant", "queue-operation", "attachment", "summary", "custom-title"])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(values=st.lists(st.tuples(kinds, json_values, json_values), min_size=1, max_size=6))
def test_known_types_with_arbitrary_values(values: list[tuple[str, object, object]]) -> None:
    lines = [
        json.dumps(
            {
                "type": kind,
                "role": kind,
                "event": kind,
                "uuid": str(at),
                "message": message,
                "content": content,
                "operation": "enqueue",
                "attachment": message,
                "isSidechain": at % 2 == 0,
                "data": content,
            }
        )
        for at, (kind, message, content) in enumerate(values)
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.jsonl", "s/transcript.jsonl", "s/events.jsonl", "s/metadata.json"):
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(lines[:1] if name.endswith(".json") else lines))
        read_all(Walk().over([Path(folder)]))
        for importer in IMPORTERS.values():
            read_all(Walk(format=importer.name).over([Path(folder) / "a.jsonl"]))
