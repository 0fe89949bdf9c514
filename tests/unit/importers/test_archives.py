import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from convmemory.conversations.importing import archives
from convmemory.conversations.importing.archives import Unpacked, UnpackLimits, unpack_upload
from convmemory.core.errors import InvalidInput, TooLarge

LINE = b'{"role": "user", "content": "hi"}\n'
LIMITS = UnpackLimits()


def unpack(data: bytes, name: str, target: Path, limits: UnpackLimits = LIMITS) -> Unpacked:
    return unpack_upload(io.BytesIO(data), name, target, limits)


def files_of(unpacked: Unpacked) -> dict[str, bytes]:
    root = unpacked.root
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def zip_of(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in entries:
            archive.writestr(entry, data)
    return buffer.getvalue()


def tar_of(*entries: tuple[str | tarfile.TarInfo, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for entry, data in entries:
            info = entry if isinstance(entry, tarfile.TarInfo) else tarfile.TarInfo(entry)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def test_single_file_keeps_its_name(tmp_path: Path) -> None:
    unpacked = unpack(LINE, "C:\\Users\\mira\\chat.jsonl", tmp_path)
    assert unpacked.root == tmp_path / "chat"
    assert files_of(unpacked) == {"chat.jsonl": LINE}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.zip", zip_of(("s/chat.jsonl", LINE), ("s/", b""))),
        ("a.tar", tar_of(("s/chat.jsonl", LINE))),
        ("a.tar.gz", tar_of(("s/chat.jsonl", LINE), mode="w:gz")),
        ("a.tgz", tar_of(("./s/chat.jsonl", LINE), mode="w:gz")),
        ("a.tar.bz2", bz2.compress(tar_of(("s/chat.jsonl", LINE)))),
        ("a.tar.xz", lzma.compress(tar_of(("s/chat.jsonl", LINE)))),
    ],
)
def test_archive_formats_are_detected_by_content(tmp_path: Path, name: str, data: bytes) -> None:
    for number, upload_name in enumerate((name, "upload")):
        unpacked = unpack(data, upload_name, tmp_path / str(number))
        assert files_of(unpacked) == {"s/chat.jsonl": LINE}
        assert unpacked.root.name == ("a" if upload_name == name else "upload")


def test_gzipped_file(tmp_path: Path) -> None:
    assert files_of(unpack(gzip.compress(LINE), "chat.jsonl.gz", tmp_path)) == {"chat.jsonl": LINE}


@pytest.mark.parametrize("name", ["../evil.jsonl", "a/../../evil.jsonl", "..\\evil.jsonl", "a/" * 60 + "x.jsonl"])
def test_names_that_lead_out_are_passed_over(tmp_path: Path, name: str) -> None:
    for data in (zip_of((name, LINE), ("ok.jsonl", LINE)), tar_of((name, LINE), ("ok.jsonl", LINE))):
        unpacked = unpack(data, "a.zip", tmp_path / str(len(data)))
        assert files_of(unpacked) == {"ok.jsonl": LINE}
        assert len(unpacked.notes) == 1
    assert not list(tmp_path.glob("evil*"))


def test_absolute_and_odd_names_stay_inside(tmp_path: Path) -> None:
    long_name = "x" * 300 + ".jsonl"
    data = zip_of(("/etc/passwd", LINE), ("a\nb.jsonl", LINE), (long_name, LINE))
    names = sorted(files_of(unpack(data, "a.zip", tmp_path)))
    assert names[:2] == ["ab.jsonl", "etc/passwd"]
    assert names[2].endswith(".jsonl")
    assert len(names[2]) < 240


def test_links_and_devices_are_passed_over(tmp_path: Path) -> None:
    link = tarfile.TarInfo("link.jsonl")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    pipe = tarfile.TarInfo("pipe.jsonl")
    pipe.type = tarfile.FIFOTYPE
    unpacked = unpack(tar_of((link, b""), (pipe, b""), ("ok.jsonl", LINE)), "a.tar", tmp_path)
    assert files_of(unpacked) == {"ok.jsonl": LINE}
    assert [note.rpartition(": ")[2] for note in unpacked.notes] == ["not a regular file"] * 2
    zipped = zipfile.ZipInfo("link.jsonl")
    zipped.external_attr = 0o120777 << 16
    unpacked = unpack(zip_of((zipped, b"/etc/passwd"), ("ok.jsonl", LINE)), "b.zip", tmp_path)
    assert files_of(unpacked) == {"ok.jsonl": LINE}


def test_same_name_twice_keeps_first(tmp_path: Path) -> None:
    data = tar_of(("a.jsonl", LINE), ("a.jsonl", b"other"), ("a.jsonl/b.jsonl", b"below a file"))
    unpacked = unpack(data, "a.tar", tmp_path)
    assert files_of(unpacked) == {"a.jsonl": LINE}
    assert len(unpacked.notes) == 2


@pytest.mark.parametrize("make", [zip_of, tar_of])
def test_too_many_bytes_in_all(tmp_path: Path, make: object) -> None:
    data = make(("a.jsonl", b"x" * 600), ("b.jsonl", b"y" * 600))  # type: ignore[operator]
    with pytest.raises(TooLarge, match="expands to more than 0 MB: upload it in parts"):
        unpack(data, "a", tmp_path, UnpackLimits(max_bytes=1000))


@pytest.mark.parametrize("data", [zip_of(("a", b"\0" * 10**6)), gzip.compress(tar_of(("a", b"\0" * 10**6)))])
def test_archive_that_expands_without_end(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(TooLarge, match="more than 20 times its size"):
        unpack(data, "a", tmp_path, UnpackLimits(max_ratio=20, ratio_from_bytes=1000))


def test_zip_whose_header_lies_about_size(tmp_path: Path) -> None:
    data = bytearray(zip_of(("a.jsonl", b"\0" * 10**6)))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.index(signature) + offset
        data[at : at + 4] = (10).to_bytes(4, "little")
    with pytest.raises(InvalidInput):
        unpack(bytes(data), "a.zip", tmp_path, UnpackLimits(max_bytes=1000))


def test_giant_header_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_READ_BYTES", 10_000)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a.jsonl")
        info.pax_headers = {"comment": "x" * 20_000}
        archive.addfile(info)
    with pytest.raises(InvalidInput, match="damaged archive: a header of the archive is too large"):
        unpack(gzip.compress(buffer.getvalue()), "a.tar.gz", tmp_path)


def test_too_many_files(tmp_path: Path) -> None:
    entries = [(f"{number}.jsonl", LINE) for number in range(5)]
    for name, data in (("a.zip", zip_of(*entries)), ("b.tar", tar_of(*entries))):
        with pytest.raises(TooLarge, match="more than 4 files"):
            unpack(data, name, tmp_path, UnpackLimits(max_files=4))


def test_too_many_folders(tmp_path: Path) -> None:
    data = zip_of(*((f"{number}/a/b/c/chat.jsonl", LINE) for number in range(3)))
    with pytest.raises(TooLarge, match="more than 10 files or folders"):
        unpack(data, "a.zip", tmp_path, UnpackLimits(max_files=10))


@pytest.mark.parametrize("name", ["inner.zip", "inner.jsonl", "inner"])
def test_archive_in_archive_is_unpacked(tmp_path: Path, name: str) -> None:
    inner = zip_of(("s/chat.jsonl", LINE), ("deeper.tar.gz", tar_of(("t.jsonl", LINE), mode="w:gz")))
    unpacked = unpack(zip_of((name, inner), ("chat.jsonl.gz", gzip.compress(LINE))), "a.zip", tmp_path)
    folder = "inner" if name != "inner" else "inner.unpacked"
    assert files_of(unpacked) == {
        f"{folder}/s/chat.jsonl": LINE,
        f"{folder}/deeper/t.jsonl": LINE,
        "chat.jsonl/chat.jsonl": LINE,
    }
    assert (unpacked.files, unpacked.notes) == (3, [])


def test_archives_in_archives_share_limits(tmp_path: Path) -> None:
    part = zip_of(("a.jsonl", bytes(range(256)) * 8), ("b.jsonl", bytes(range(256)) * 8))
    data = zip_of(*((f"{number}.zip", part) for number in range(4)))
    assert unpack(data, "whole.zip", tmp_path).files == 8
    with pytest.raises(TooLarge, match="expands to more than 0 MB"):
        unpack(data, "bytes.zip", tmp_path, UnpackLimits(max_bytes=16_000))
    with pytest.raises(TooLarge, match="more than 11 files"):
        unpack(data, "files.zip", tmp_path, UnpackLimits(max_files=11))
    bomb = zip_of(("inner.zip", zip_of(("a.jsonl", b"\0" * 10**6))), ("x.tar", b"no archive at all"))
    with pytest.raises(TooLarge, match="more than 100 times its size"):
        unpack(bomb, "ratio.zip", tmp_path, UnpackLimits(ratio_from_bytes=1000))


def test_archive_nested_too_deep_is_skipped_with_note(tmp_path: Path) -> None:
    data = zip_of(("chat.jsonl", LINE))
    for depth in range(3):
        data = zip_of((f"{depth}.zip", data), (f"{depth}.jsonl", LINE))
    unpacked = unpack(data, "a.zip", tmp_path)
    assert sorted(path.rpartition("/")[2] for path in files_of(unpacked)) == ["0.jsonl", "1.jsonl", "2.jsonl"]
    assert unpacked.files == 3
    assert unpacked.notes == ["'2/1/0.zip' was passed over: it lies 4 archives deep. Unpack it first."]


def test_small_archive_can_write_8_mb_at_most(tmp_path: Path) -> None:
    for name, data in (("a.json", b"[" + b"{}," * 20_000_000), ("a.jsonl", b'{"a":[' + b"{}," * 20_000_000)):
        packed = zip_of((name, data))
        assert len(packed) < 60_000
        with pytest.raises(TooLarge, match="upload the files unpacked"):
            unpack(packed, "a.zip", tmp_path / name)
        assert not files_of(Unpacked(tmp_path / name))


def test_damaged_archives(tmp_path: Path) -> None:
    packed = gzip.compress(bytes(range(256)) * 1000)
    with pytest.raises(InvalidInput, match="is a damaged archive"):
        unpack(packed[: len(packed) // 2], "chat.jsonl.gz", tmp_path)
    tar = tar_of(("a.jsonl", LINE), ("b.jsonl", bytes(range(256)) * 100))
    unpacked = unpack(tar[:2000], "b.tar", tmp_path)
    assert files_of(unpacked)["a.jsonl"] == LINE
    bad = bytearray(zip_of(("a.jsonl", LINE * 100), ("b.jsonl", LINE)))
    bad[50] ^= 0xFF
    unpacked = unpack(bytes(bad), "c.zip", tmp_path)
    assert files_of(unpacked) == {"b.jsonl": LINE}
    assert len(unpacked.notes) == 1


def test_archive_without_any_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"a\.zip holds no file that can be imported"):
        unpack(zip_of(), "a.zip", tmp_path)


def test_empty_upload_is_empty_file(tmp_path: Path) -> None:
    assert files_of(unpack(b"", "", tmp_path)) == {"upload": b""}


@pytest.mark.parametrize(
    ("name", "encoding"),
    [("对话记录/聊天.jsonl", "gbk"), ("会話/チャット.jsonl", "shift_jis"), ("Gespräch/Übung.jsonl", "cp437"),
     ("对话/聊天.jsonl", "utf-8"), ("Gespräch/é.jsonl", "utf-8")],
)  # fmt: skip
def test_names_in_zip_without_mark_of_utf_8_are_decoded(name: str, encoding: str, tmp_path: Path) -> None:
    class Entry(zipfile.ZipInfo):
        def _encodeFilenameFlags(self) -> tuple[bytes, int]:
            return name.encode(encoding), 0

    assert list(files_of(unpack(zip_of((Entry("x"), b"{}")), "export.zip", tmp_path))) == [name]
