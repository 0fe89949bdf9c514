"""The route that moves and copies conversations and documents between archives."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from convmemory.accounts.authentication import caller_of
from convmemory.accounts.keys import KEYS_ONLY_READ
from convmemory.accounts.spaces import spaces_named_by_key
from convmemory.core.errors import NotAllowed, NotFound
from convmemory.moving.carrying import carry, find_archive
from convmemory.moving.schemas import Moved, MoveIn

router = Router(tags=["moves"])


@router.post("/moves", response=Moved, summary="Move or copy a conversation or document to a space, or out of one")
def move(request: HttpRequest, body: MoveIn) -> dict[str, Any]:
    """Moving keeps the address. A worker indexes the object again, without computing its vectors.

    A key can copy from the spaces that it reads to your own archive, and nothing else.
    """
    person = caller_of(request)
    if hasattr(person, "key_spaces"):
        source = find_archive(person=person, kind=body.kind, object_id=body.id)
        if source is not None and source.space_id not in spaces_named_by_key(person):
            raise NotFound(f"There is no {body.kind} {body.id}.")
        if body.space is not None or (source is not None and not body.copy_it):
            raise NotAllowed(KEYS_ONLY_READ)
    number = carry(person=person, kind=body.kind, object_id=body.id, space_id=body.space, is_copy=body.copy_it)
    return {"kind": body.kind, "id": number, "url": f"/{body.kind}s/{number}"}
