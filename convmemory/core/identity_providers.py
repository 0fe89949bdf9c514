"""The identity providers in `OIDC_PROVIDERS`: a JSON list of objects with the fields of `IdentityProvider`."""

import json
import re
from dataclasses import MISSING, dataclass, fields
from typing import Any
from urllib.parse import urlsplit

from convmemory.core.conf import LOOPBACK
from convmemory.core.errors import SettingError

ROLES = ("reader", "contributor", "manager")  # of members of a space, each may do what the ones before may
NAME = re.compile(r"[a-z0-9-]{1,40}")


@dataclass(frozen=True, slots=True)
class SpaceGroup:
    """A group of a provider whose people are members of a space, with this role."""

    group: str
    space: int
    role: str


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """One provider of OpenID Connect, as the operator describes it."""

    name: str
    """Part of this server's redirect address, which the provider has to know."""
    label: str
    """On the button."""
    issuer: str
    client_id: str
    client_secret: str = ""
    scopes: str = "openid email profile"
    groups_claim: str = "groups"
    staff_groups: tuple[str, ...] = ()
    space_groups: tuple[SpaceGroup, ...] = ()
    match_email: bool = False
    scim_claim: str = ""
    """Finds the account that SCIM made, by its externalId or its userName."""
    create_accounts: bool = False


def providers_from(variable: str, text: str) -> tuple[IdentityProvider, ...]:
    """Return the providers that the text describes. Raises: SettingError, which quotes no value but names."""
    try:
        described = json.loads(text or "[]")
    except ValueError as error:
        raise SettingError(f"{variable} is no JSON: {error}.") from None
    if not isinstance(described, list) or not all(isinstance(each, dict) for each in described):
        raise SettingError(f"{variable} is not a JSON list of objects, one for each provider.")
    providers = tuple(
        _provider(f"{variable}, provider {number}", each) for number, each in enumerate(described, start=1)
    )
    if len({each.name for each in providers}) < len(providers):
        raise SettingError(f"{variable} gives two providers the same name: name them differently.")
    return providers


def _provider(label: str, values: dict[str, Any]) -> IdentityProvider:
    known_fields = {field.name: field for field in fields(IdentityProvider)}
    if unknown := sorted(set(values) - set(known_fields)):
        raise SettingError(f"{label} has the unknown field {unknown[0]!r}: use any of {', '.join(known_fields)}.")
    if missing := [name for name, field in known_fields.items() if field.default is MISSING and not values.get(name)]:
        raise SettingError(f"{label} has no {missing[0]}.")
    for name, value in values.items():
        kind = known_fields[name].type
        if name == "space_groups":
            continue
        if kind is bool or kind is str:
            is_right, type_name = isinstance(value, kind), {bool: "true or false", str: "a text"}[kind]
        else:
            is_right = isinstance(value, list) and all(isinstance(one, str) for one in value)
            type_name = "a list of texts"
        if not is_right:
            raise SettingError(f"{label}: {name} is not {type_name}.")
    spaces = values.get("space_groups", [])
    if not isinstance(spaces, list) or not all(map(_is_space_group, spaces)):
        raise SettingError(
            f'{label}: space_groups is not a list of objects such as {{"group": "sales", "space": 7, "role": '
            f'"reader"}}, with a role of {", ".join(ROLES)}.'
        )
    groups = {"staff_groups": tuple(values.get("staff_groups", ()))}
    made = IdentityProvider(**{**values, **groups, "space_groups": tuple(SpaceGroup(**each) for each in spaces)})
    if not NAME.fullmatch(made.name):
        raise SettingError(f"{label}: the name {made.name!r} is not of 1 to 40 small letters, digits and hyphens.")
    issuer = urlsplit(made.issuer)
    if issuer.scheme != "https" and not (issuer.scheme == "http" and issuer.hostname in LOOPBACK):
        raise SettingError(f"{label}: the issuer has to begin with https://, or with http:// on this machine.")
    if "openid" not in made.scopes.split():
        raise SettingError(f"{label}: the scopes do not contain openid.")
    return made


def _is_space_group(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {field.name for field in fields(SpaceGroup)}:
        return False
    is_number = isinstance(value["space"], int) and not isinstance(value["space"], bool)
    return isinstance(value["group"], str) and is_number and value["role"] in ROLES
