"""What the page of imports says of the end of one: green only if something came in and nothing failed."""

from typing import Any

import pytest

from convmemory.conversations.importing.links import Links
from convmemory.conversations.importing.models import Import
from convmemory.conversations.importing.views import FileRow, ImportCard

FULL = "Oars: Your storage is full. What was read before is stored, the rest was not read."


@pytest.mark.parametrize(
    ("conversations", "added", "files", "outcome", "is_complete"),
    [
        (3, 9, [{"errors": []}], "imported", True),
        (3, 0, [{"errors": []}], "nothing new: all of it was here", True),
        (0, 0, [{"errors": []}], "nothing to import in it", False),
        (241, 9, [{"errors": [FULL]}], "partly imported", False),
        (0, 0, [{"errors": [FULL]}], "not imported", False),
        (2, 9, [{"errors": []}, {"errors": ["unknown"], "refused": True}], "", False),
    ],
)
def test_import_is_called_imported_only_if_nothing_failed(
    conversations: int, added: int, files: list[dict[str, Any]], outcome: str, is_complete: bool
) -> None:
    refused = sum(bool(file.get("refused")) for file in files)
    report = {"total": {"conversations": conversations, "added": added}, "refused_files": refused}
    row = Import(name="oars.zip", state=Import.State.DONE, report=report)
    card = ImportCard(row, "", is_open=False, files=tuple(FileRow(file, Links((), 0)) for file in files))
    assert (card.outcome, card.is_complete) == (outcome, is_complete)
