"""Background tasks of documents: each loads a row by id, calls one function and returns a small dict."""

from typing import Any

from convmemory.core.postgres.archives import over_all_archives
from convmemory.core.queue.fair_queue import asked_for, enqueue_for, task
from convmemory.documents.drawing import draw_pages, first_of_batch
from convmemory.documents.processing import process_document, unfinished_documents

PROCESS = "convmemory.documents.tasks.process"
DRAW = "convmemory.documents.tasks.draw"
SWEPT = 200


def enqueue_document(*, archive_id: int, document_id: int, added_by: int | None = None) -> None:
    """Enqueue the reading of one document; in a space it takes the turn of `added_by`, or of who acts."""
    enqueue_for(archive_id, PROCESS, document_id, group="document", person_id=added_by)


def enqueue_drawing(*, archive_id: int, document_id: int, page: int) -> None:
    """Enqueue the drawing of a page of a PDF and of the pages in its batch."""
    enqueue_for(archive_id, DRAW, document_id, first_of_batch(page), group="pictures")


@task(long=True)
def draw(document_id: int, first: int, *, archive_id: int) -> dict[str, Any]:
    """Draw some pages of a PDF in a separate process."""
    return {"drawn": draw_pages(archive_id=archive_id, document_id=document_id, first=first)}


@task(long=True)
def process(document_id: int, *, archive_id: int) -> dict[str, Any]:
    """Read one document in a separate process."""
    return {"status": process_document(archive_id=archive_id, document_id=document_id)}


@over_all_archives
def sweep() -> dict[str, Any]:
    """Enqueue waiting documents that are not in the queue; scheduled every minute."""
    in_hand = {row.args[0] for row in asked_for(PROCESS).only("args")}
    missed = [row for row in unfinished_documents(limit=SWEPT) if row[1] not in in_hand]
    for archive_id, document_id, added_by in missed:
        enqueue_document(archive_id=archive_id, document_id=document_id, added_by=added_by)
    return {"enqueued": len(missed)}
