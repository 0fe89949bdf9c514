"""Our own questions over the sample conversations: a folder of JSON lines, or one such file.

A line has `query`, `conversation` (source id of a sample), `turns` and `kind`.
"""

from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

from convmemory.conversations.drafts import ConversationDraft
from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.plain import PlainImporter
from convmemory.conversations.samples_loader import SAMPLES
from convmemory.core.errors import InvalidInput
from convmemory.evaluation.files import read_lines
from convmemory.evaluation.haystacks import SOURCE, Haystack, Question


def read(path: Path) -> Iterator[Haystack]:
    """One haystack: all samples and all questions. Raises: InvalidInput."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise InvalidInput(f"{path} holds no *.jsonl file with questions.")
    questions = [
        Question(
            text=line["query"],
            category=line["kind"],
            fold=line["conversation"],
            turns=frozenset((line["conversation"], turn) for turn in line["turns"]),
        )
        for file in files
        for line in read_lines(file)
    ]
    yield Haystack("samples", _drafts, tuple(questions))


def _drafts() -> Iterator[ConversationDraft]:
    with resources.as_file(SAMPLES) as folder:
        for file in sorted(folder.glob("*.json")):
            for draft in PlainImporter().parse(Source(file), FileReport(path=str(file))):
                yield replace(draft, source=SOURCE)
