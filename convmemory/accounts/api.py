"""The route that lists the spaces of the caller."""

from typing import Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from convmemory.accounts.authentication import caller_of, key_writes_spaces
from convmemory.accounts.spaces import WRITERS, spaces_seen_by

router = Router(tags=["spaces"])


class ReadSpace(Schema):
    id: int
    name: str
    role: str = Field(description="yours: reader, contributor or manager")
    writes: bool = Field(description="requests like this one may store, change and delete there")


class SpaceList(Schema):
    results: list[ReadSpace]


@router.get("/spaces", response=SpaceList, summary="The spaces that this key reads, or all of yours with a session")
def list_spaces(request: HttpRequest) -> dict[str, Any]:
    members = spaces_seen_by(caller_of(request))
    may_write = bool(members) and key_writes_spaces(request)
    return {
        "results": [
            {
                "id": member.space_id,
                "name": member.space.space.name,
                "role": member.role,
                "writes": may_write and member.role in WRITERS,
            }
            for member in members
        ]
    }
