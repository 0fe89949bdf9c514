"""Routes for the caller's trash."""

from typing import Any, Literal

from django.http import HttpRequest
from ninja import P, QueryEx, Router, Status

from convmemory.accounts.authentication import caller_of
from convmemory.retention import trash
from convmemory.retention.schemas import Emptied, TrashPage
from convmemory.retention.tasks import enqueue_deletion

router = Router(tags=["trash"])
Kind = Literal["conversation", "document"]


@router.get("/trash", response=TrashPage, summary="What is in your trash, the latest first")
def list_trash(
    request: HttpRequest, limit: QueryEx[int, P(ge=1, le=100)] = 20, start: QueryEx[int, P(ge=0, le=10_000)] = 0
) -> dict[str, Any]:
    rows, following = trash.page_of_trash(owner=caller_of(request), limit=limit, start=start)
    return {"results": rows, "next_start": following}


@router.delete("/trash", response={202: Emptied}, summary="Empty your trash: delete all of it for good")
def empty_trash(request: HttpRequest) -> Status[dict[str, Any]]:
    owner = caller_of(request)
    count = trash.empty(owner=owner)
    enqueue_deletion(owner.pk)
    return Status(202, {"deleted": count})


@router.post("/trash/{kind}/{int:object_id}/restore", response={204: None}, summary="Put something back")
def restore(request: HttpRequest, kind: Kind, object_id: int) -> Status[None]:
    """A worker indexes it again, without computing its vectors; until then `GET /index/status` counts it as pending."""
    trash.restore(owner=caller_of(request), kind=kind, object_id=object_id)
    return Status(204, None)


@router.delete("/trash/{kind}/{int:object_id}", response={202: None}, summary="Delete something in your trash for good")
def delete_now(request: HttpRequest, kind: Kind, object_id: int) -> Status[None]:
    owner = caller_of(request)
    trash.delete_now(owner=owner, kind=kind, object_id=object_id)
    enqueue_deletion(owner.pk)
    return Status(202, None)
