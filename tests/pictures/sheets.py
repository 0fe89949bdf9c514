"""Pictures as files: one sheet of a page, half as large as it is seen, and the document that shows all sheets."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

from tests.pictures.pages import Shot

SIZES = ((1440, 900), (1024, 768), (768, 1024), (390, 844))
SCHEMES = {"light": "#d8dbd6", "dark": "#2b2f2c"}
GAP = 12
HEIGHT = max(height for _, height in SIZES) // 2
QUALITY = 38
COLOURS = 128


def save_sheet(path: Path, taken: Mapping[tuple[str, int], bytes]) -> None:
    """The pictures by scheme and width as one: light above, dark below, from wide to narrow."""
    width = sum(width // 2 + GAP for width, _ in SIZES) + GAP
    sheet = Image.new("RGB", (width, 2 * (HEIGHT + 2 * GAP)))
    for row, (scheme, ground) in enumerate(SCHEMES.items()):
        top, left = row * (HEIGHT + 2 * GAP), GAP
        sheet.paste(ground, (0, top, width, top + HEIGHT + 2 * GAP))
        for wide, high in SIZES:
            with Image.open(io.BytesIO(taken[scheme, wide])) as picture:
                sheet.paste(
                    picture.convert("RGB").resize((wide // 2, high // 2), Image.Resampling.LANCZOS), (left, top + GAP)
                )
            left += wide // 2 + GAP
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, "WEBP", quality=QUALITY, method=6)


def save_small(path: Path, png: bytes) -> None:
    """A picture in few colours."""
    with Image.open(io.BytesIO(png)) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def write_index(path: Path, shots: Sequence[Shot]) -> None:
    """Write the part of the document that shows the sheets; what stands before them stays."""
    before = path.read_text(encoding="utf-8").partition(f"## {shots[0].title}\n")[0].rstrip()
    parts = [before, *(f"## {shot.title}\n\n![{shot.title}](images/pages/{shot.name}.webp)" for shot in shots)]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
