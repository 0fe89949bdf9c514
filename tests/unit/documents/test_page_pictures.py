"""Pages drawn as pictures, with the places of their words: turned, huge or damaged ones, too."""

import json
from pathlib import Path

import pytest
from PIL import Image

from convmemory.documents.converters.base import SourceFile, Unreadable
from convmemory.documents.draw_child import MAX_HEIGHT, MAX_WIDTH, draw_pages
from tests.support.documents import encrypted_pdf, pdf_of

PAGES = pdf_of([[(12, "first page")], [(24, "Second (page)"), (12, "of two")]])


def drawn(folder: Path, data: bytes, *, first: int = 1, count: int = 8) -> list[str]:
    file, target = folder / "upload", folder / "pages"
    file.write_bytes(data)
    target.mkdir()
    draw_pages(SourceFile(file, "a.pdf"), first=first, count=count, folder=target)
    return sorted(path.name for path in target.iterdir())


def test_page_is_picture_and_places_of_its_words(tmp_path: Path) -> None:
    assert drawn(tmp_path, PAGES, first=2) == ["2.json", "2.webp"]
    page = json.loads((tmp_path / "pages/2.json").read_text())
    with Image.open(tmp_path / "pages/2.webp") as picture:
        assert picture.size == (page["width"], page["height"])
        assert picture.width == MAX_WIDTH
        assert [[word[0] for word in line] for line in page["lines"]] == [["Second", "(page)"], ["of", "two"]]
        for line in page["lines"]:
            for _, left, top, right, bottom in line:
                box = picture.convert("L").crop((left, top, right, bottom))
                assert any(box.histogram()[:128])  # letters stand in the box


def test_turned_page_has_its_words_where_they_are_drawn(tmp_path: Path) -> None:
    drawn(tmp_path, PAGES.replace(b"/Type/Page/Parent", b"/Rotate 90/Type/Page/Parent"), count=1)
    page = json.loads((tmp_path / "pages/1.json").read_text())
    assert page["width"] > page["height"]
    [[_, left, top, right, bottom], *_] = page["lines"][0]
    assert 0 <= left < right <= page["width"]
    assert 0 <= top < bottom <= page["height"]


@pytest.mark.parametrize("box", [b"[0 0 14400 14400]", b"[0 0 144 14400]", b"[0 0 14400 144]"])
def test_huge_page_is_drawn_within_largest_size(tmp_path: Path, box: bytes) -> None:
    drawn(tmp_path, PAGES.replace(b"[0 0 595 842]", box), count=1)
    page = json.loads((tmp_path / "pages/1.json").read_text())
    assert 1 <= page["width"] <= MAX_WIDTH
    assert 1 <= page["height"] <= MAX_HEIGHT


@pytest.mark.parametrize("box", [b"[0 0 1 14400]", b"[0 0 14400 1]", b"[0 0 .1 .1]", b"[0 0 200000 200000]"])
def test_page_with_absurd_sides_is_not_drawn_and_others_are(tmp_path: Path, box: bytes) -> None:
    assert drawn(tmp_path, PAGES.replace(b"[0 0 595 842]", box, 1)) == ["2.json", "2.webp"]


def test_encrypted_pdf_is_not_drawn(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        drawn(tmp_path, encrypted_pdf())
