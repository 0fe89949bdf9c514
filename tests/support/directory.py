"""A directory that makes accounts and groups by SCIM."""

import json
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from convmemory.accounts.scim.tokens import create_token

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


class Directory:
    """A client of SCIM with a token."""

    def __init__(self, token: str = "") -> None:
        self.client = Client(headers={"Authorization": f"Bearer {token or create_token(name='entra')}"})

    def send(self, method: str, path: str, body: Any = None) -> Any:
        data = "" if body is None else json.dumps(body)
        return self.client.generic(method, f"/scim/v2{path}", data, content_type="application/scim+json")

    def made(self, path: str, **values: Any) -> dict[str, Any]:
        schema = USER if path == "/Users" else GROUP
        answer = self.send("POST", path, {"schemas": [schema], **values})
        assert answer.status_code == 201, answer.content
        found: dict[str, Any] = answer.json()
        return found

    def user(self, name: str, **values: Any) -> User:
        made = self.made("/Users", **{"userName": name, "active": True, **values})
        return User.objects.get(pk=made["id"])

    def patch(self, path: str, *operations: dict[str, Any]) -> Any:
        return self.send("PATCH", path, {"schemas": [PATCH], "Operations": operations})

    def found(self, path: str, filter: str, **query: Any) -> list[str]:
        answer = self.client.get(f"/scim/v2{path}", {"filter": filter, **query})
        assert answer.status_code == 200, answer.content
        return [each.get("userName") or each["displayName"] for each in answer.json()["Resources"]]
