"""The process that converts one file, under limits: `python -m convmemory.documents.parse_child`.

Arguments: the file, its original name, the output file for the sections, the limits of the converters as JSON, and
those of the process. It receives no address, password or key of the installation, and is confined to the file and to
the output file's folder.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from convmemory.core.child_limits import run_under_limits
from convmemory.core.confinement import Access
from convmemory.documents.converters.base import ConvertLimits
from convmemory.documents.converting import write_sections


def _work(arguments: Sequence[str]) -> None:
    path, name, target, limits = arguments
    write_sections(path=Path(path), name=name, target=Path(target), limits=ConvertLimits(**json.loads(limits)))


def _access(arguments: Sequence[str]) -> Access:
    path, _, target, limits = arguments
    return Access([Path(path)], [Path(target).parent], programs=ConvertLimits(**json.loads(limits)).ocr)


if __name__ == "__main__":
    run_under_limits(_work, access=_access)
