"""The route that moves and copies conversations and documents between archives."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from convmemory.accounts.authentication import caller_of
from convmemory.moving.carrying import carry
from convmemory.moving.schemas import Moved, MoveIn

router = Router(tags=["moves"])


@router.post("/moves", response=Moved, summary="Move or copy a conversation or document to a space, or out of one")
def move(request: HttpRequest, body: MoveIn) -> dict[str, Any]:
    """Moving keeps the address. A worker indexes the object again, without computing its vectors.

    A key reads the spaces that it names, and moves into and out of them if it also writes to them.
    """
    caller = caller_of(request)
    number = carry(caller=caller, kind=body.kind, object_id=body.id, space_id=body.space, is_copy=body.copy_it)
    return {"kind": body.kind, "id": number, "url": f"/{body.kind}s/{number}"}
