"""All decoders of one upload share one bound of decoded bytes, whatever the format."""

import base64
import gzip
import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.detect import IMPORTERS, Walk
from convmemory.conversations.importers.lines import BUFFER_BYTES, open_transcript
from convmemory.conversations.importing.archives import CHUNK_BYTES, UnpackLimits, unpack_upload
from convmemory.core.errors import TooLarge
from convmemory.core.files.decoding import DecodedBytes, DecodeLimits, decoding

LINE = b'{"role": "user", "content": "hello"}\n'
MB = 1024**2
LIMITS = UnpackLimits(max_ratio=100, ratio_from_bytes=MB)


def database_of(path: Path, *statements: str, rows: dict[str, list[tuple[object, ...]]] | None = None) -> Path:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
        for insert, values in (rows or {}).items():
            connection.executemany(insert, values)
    connection.close()
    return path


def zed_database(path: Path) -> Path:
    """Threads whose documents are one letter, compressed; each expands to 4 MB."""
    thread = {"version": "0.3.0", "messages": [{"User": {"id": "1", "content": [{"Text": "x" * 4 * MB}]}}]}
    data = zstandard.compress(json.dumps(thread).encode())
    return database_of(
        path,
        "CREATE TABLE threads (id TEXT, summary TEXT, updated_at TEXT, data_type TEXT, data BLOB)",
        rows={"INSERT INTO threads VALUES (?, 's', '2026-01-01', 'zstd', ?)": [(str(n), data) for n in range(8)]},
    )


def cursor_database(path: Path) -> Path:
    """One bubble of 100 kB that its composer lists a thousand times."""
    headers = [{"bubbleId": "b", "type": 1}] * 1_000
    composer = {"composerId": "c", "fullConversationHeadersOnly": headers}
    bubble = {"text": "x" * 100_000}
    return database_of(
        path,
        "CREATE TABLE cursorDiskKV (key TEXT, value TEXT)",
        rows={
            "INSERT INTO cursorDiskKV VALUES (?, ?)": [
                ("composerData:c", json.dumps(composer)),
                ("bubbleId:c:b", json.dumps(bubble)),
            ]
        },
    )


def transcript(path: Path) -> Path:
    """Messages of 100 kB each, 30 MB in all."""
    line = json.dumps({"role": "user", "content": "x" * 100_000}).encode() + b"\n"
    path.write_bytes(zstandard.compress(line * 300))
    return path


def read_all(importer: str, path: Path) -> Iterator[int]:
    """Parse the file as imports do; yields the weight of each message."""
    conversations = IMPORTERS[importer].parse(Source(path), FileReport(path=path.name))
    for draft in conversations:
        yield from (message.weight for message in draft.messages)


@pytest.mark.parametrize(
    ("importer", "make", "chunk"),
    [
        ("zed", zed_database, 4 * MB),
        ("plain", transcript, BUFFER_BYTES),
    ],
)
def test_small_file_is_not_decoded_past_bound(tmp_path: Path, importer: str, make: object, chunk: int) -> None:
    path: Path = make(tmp_path / ("a.jsonl" if importer == "plain" else "a.db"))  # type: ignore[operator]
    size = path.stat().st_size
    assert size < 300_000
    decoded = DecodedBytes(encoded_bytes=size, limits=DecodeLimits(max_ratio=10, ratio_from_bytes=3 * MB))
    with decoding(decoded), pytest.raises(TooLarge, match="more than 10 times its size"):
        sum(read_all(importer, path))
    assert decoded.count <= decoded.max_count + chunk


def test_bubble_that_is_listed_thousand_times_is_read_once(tmp_path: Path) -> None:
    path = cursor_database(tmp_path / "a.db")
    decoded = DecodedBytes(
        encoded_bytes=path.stat().st_size, limits=DecodeLimits(max_ratio=10, ratio_from_bytes=3 * MB)
    )
    with decoding(decoded):
        assert sum(read_all("cursor", path)) < 3 * MB // 10
    assert decoded.count < 2 * path.stat().st_size


@pytest.mark.parametrize(("importer", "make"), [("zed", zed_database), ("plain", transcript)])
def test_local_files_are_read_without_ratio(tmp_path: Path, importer: str, make: object) -> None:
    path: Path = make(tmp_path / ("a.jsonl" if importer == "plain" else "a.db"))  # type: ignore[operator]
    assert sum(read_all(importer, path)) > 20 * MB


def test_reading_compressed_file_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.compress(LINE * 1_000))
    decoded = DecodedBytes(encoded_bytes=path.stat().st_size)
    with decoding(decoded):
        for _ in range(3):
            with open_transcript(path) as file:
                file.read()
    assert decoded.count == 1_000 * len(LINE)


def test_nested_decoders_share_one_bound(tmp_path: Path) -> None:
    """A compressed transcript in a zip: neither reaches the bound alone."""
    inner = zstandard.compress(LINE * (MB // len(LINE) * 3 // 4))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.jsonl.zst", inner)
        archive.writestr("b.jsonl", LINE * (MB // len(LINE) * 3 // 4), zipfile.ZIP_DEFLATED)
    decoded = DecodedBytes(encoded_bytes=len(buffer.getvalue()), limits=LIMITS)
    unpacked = unpack_upload(buffer, "a.zip", tmp_path, LIMITS, decoded)
    with decoding(decoded):
        (detected,) = [detected for detected in Walk().over([unpacked.root]) if detected.source.path.suffix == ".zst"]
        with pytest.raises(TooLarge), open_transcript(detected.source.path) as file:
            file.read()


def test_refusal_while_file_is_recognised_names_limit(tmp_path: Path) -> None:
    path = transcript(tmp_path / "a.jsonl")
    with decoding(DecodedBytes(encoded_bytes=10, limits=DecodeLimits(max_ratio=2, ratio_from_bytes=1_000))):
        (detected,) = Walk().over([path])
    assert detected.importer is None
    assert "more than 2 times its size" in detected.reason


def test_real_ratio_is_accepted(tmp_path: Path) -> None:
    """JSON lines with random payloads compress about fourfold; transcripts reach 10 to 20."""
    noise = [base64.b64encode(bytes((n * 7919 + k * k) % 256 for k in range(60))).decode() for n in range(200)]
    text = b"".join(json.dumps({"role": "user", "content": f"{part} and {part}"}).encode() + b"\n" for part in noise)
    data = gzip.compress(text * 5)
    assert unpack_upload(io.BytesIO(data), "a.gz", tmp_path, UnpackLimits()).files == 1


@given(
    sizes=st.lists(st.integers(0, 3 * CHUNK_BYTES), min_size=1, max_size=6),
    ratio=st.integers(1, 50),
    floor=st.integers(1, 4 * MB),
    total=st.integers(1, 8 * MB),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_decoded_bytes_exceed_bound_by_at_most_one_chunk(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], ratio: int, floor: int, total: int
) -> None:
    limits = UnpackLimits(max_bytes=total, max_ratio=ratio, ratio_from_bytes=floor)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, size in enumerate(sizes):
            archive.writestr(f"{number}.jsonl", b"x" * size)
    target = tmp_path_factory.mktemp("unpacked")
    decoded = DecodedBytes(len(buffer.getvalue()), limits)
    try:
        unpack_upload(buffer, "a.zip", target, limits, decoded)
        assert decoded.count == sum(sizes) <= decoded.max_count
    except TooLarge:
        assert decoded.max_count < decoded.count <= decoded.max_count + CHUNK_BYTES
    written = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    assert written <= decoded.max_count
