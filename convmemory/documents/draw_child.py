"""The process that draws some pages of one PDF, under limits: `python -m convmemory.documents.draw_child`.

Arguments: the file, the first page, the number of pages, the folder for the pictures, and the limits of the process. It
receives no address, password or key of the installation, and is confined to the file and the folder.
"""

from collections.abc import Sequence
from pathlib import Path

from convmemory.core.child_limits import run_under_limits
from convmemory.core.confinement import Access
from convmemory.documents.converters.base import SourceFile
from convmemory.documents.converters.page_pictures import draw_pages


def _work(arguments: Sequence[str]) -> None:
    path, first, count, folder = arguments
    draw_pages(SourceFile(Path(path), ""), first=int(first), count=int(count), folder=Path(folder))


def _access(arguments: Sequence[str]) -> Access:
    path, _, _, folder = arguments
    return Access([Path(path)], [Path(folder)])


if __name__ == "__main__":
    run_under_limits(_work, access=_access)
