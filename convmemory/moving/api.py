"""The route that moves and copies conversations and documents between archives."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from convmemory.accounts.authentication import caller_of, refuse_reading_key
from convmemory.accounts.spaces import spaces_named_by_key
from convmemory.core.errors import NotFound
from convmemory.moving.carrying import carry, find_archive
from convmemory.moving.schemas import Moved, MoveIn

router = Router(tags=["moves"])


@router.post("/moves", response=Moved, summary="Move or copy a conversation or document to a space, or out of one")
def move(request: HttpRequest, body: MoveIn) -> dict[str, Any]:
    """Moving keeps the address. A worker indexes the object again, without computing its vectors.

    A key reads the spaces that it names, and moves into and out of them if it also writes to them.
    """
    person = caller_of(request)
    if hasattr(person, "key_spaces"):
        source, named = find_archive(person=person, kind=body.kind, object_id=body.id), spaces_named_by_key(person)
        if source is not None and source.space_id not in named:
            raise NotFound(f"There is no {body.kind} {body.id}.")
        if body.space is not None and body.space not in named:
            raise NotFound(f"There is no space {body.space} that this key may read.")
        if body.space is not None or (source is not None and not body.copy_it):
            refuse_reading_key(request)
    number = carry(person=person, kind=body.kind, object_id=body.id, space_id=body.space, is_copy=body.copy_it)
    return {"kind": body.kind, "id": number, "url": f"/{body.kind}s/{number}"}
