"""The route that lists the spaces of the caller."""

from typing import Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from convmemory.accounts.authentication import caller_of

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
    caller = caller_of(request)
    return {
        "results": [
            {
                "id": access.archive_id,
                "name": access.name,
                "role": access.role,
                "writes": caller.may_write_spaces and access.may_write,
            }
            for access in caller.spaces
        ]
    }
