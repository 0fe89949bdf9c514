"""The evaluation sets by name. None of them is shipped: the user provides the files."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from benchmarks.datasets import beam, coding, locomo, longmemeval, samples
from benchmarks.datasets.haystacks import Haystack
from convmemory.core.errors import InvalidInput

Reader = Callable[[Path], Iterator[Haystack]]

DATASETS: dict[str, Reader] = {
    "locomo": locomo.read,
    "longmemeval": longmemeval.read,
    "beam": beam.read,
    "coding": coding.read,
    "samples": samples.read,
}


def read_dataset(name: str, path: Path, *, limit: int | None = None) -> Iterator[Haystack]:
    """Yield the first `limit` haystacks of a set. Raises: InvalidInput if a file is malformed."""
    if not path.exists():
        raise InvalidInput(f"There is no file or folder {path}.")
    try:
        yield from islice(DATASETS[name](path), limit)
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{path} is not in the format of {name}: {type(error).__name__} {error}") from error
