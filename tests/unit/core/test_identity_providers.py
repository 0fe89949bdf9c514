"""The setting OIDC_PROVIDERS: what it may say, and the errors about the rest, which show no secret."""

import json

import pytest

from convmemory.core.errors import SettingError
from convmemory.core.identity_providers import SpaceGroup, providers_from

CORP = {"name": "corp", "label": "Corp", "issuer": "https://id.example", "client_id": "m", "client_secret": "hush-hush"}


def test_described_providers_are_read() -> None:
    assert providers_from("OIDC_PROVIDERS", "") == ()
    local = {**CORP, "name": "local", "issuer": "http://127.0.0.1:9", "staff_groups": ["a", "b"], "match_email": True}
    local["space_groups"] = [{"group": "a", "space": 7, "role": "reader"}]
    first, second = providers_from("OIDC_PROVIDERS", json.dumps([CORP, local]))
    assert (first.name, first.staff_groups, first.create_accounts) == ("corp", (), False)
    assert (second.staff_groups, second.match_email) == (("a", "b"), True)
    assert second.space_groups == (SpaceGroup("a", 7, "reader"),)
    assert len({first, second}) == 2  # Authlib's clients are cached by provider


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ("{", "OIDC_PROVIDERS is no JSON"),
        ("{}", "not a JSON list of objects"),
        ("[1]", "not a JSON list of objects"),
        ([CORP, CORP], "gives two providers the same name"),
        ([CORP | {"client_id": ""}], "provider 1 has no client_id"),
        ([CORP | {"secret": "hush-hush"}], "unknown field 'secret': use any of name, label"),
        ([CORP | {"match_email": "no"}], "match_email is not true or false"),
        ([CORP | {"client_secret": 7}], "client_secret is not a text"),
        ([CORP | {"staff_groups": "admins"}], "staff_groups is not a list of texts"),
        ([CORP | {"space_groups": {"a": 7}}], "space_groups is not a list of objects such as"),
        ([CORP | {"space_groups": [{"group": "a", "space": "7", "role": "reader"}]}], "space_groups is not a list"),
        ([CORP | {"space_groups": [{"group": "a", "space": 7, "role": "owner"}]}], "role of reader, contributor"),
        ([CORP | {"name": "The Corp"}], "the name 'The Corp' is not of 1 to 40 small letters"),
        ([CORP | {"issuer": "http://id.example"}], "the issuer has to begin with https://"),
        ([CORP | {"scopes": "email"}], "the scopes do not contain openid"),
    ],
)
def test_wrong_description_is_refused_with_its_place(described: object, message: str) -> None:
    text = described if isinstance(described, str) else json.dumps(described)
    with pytest.raises(SettingError, match=message) as raised:
        providers_from("OIDC_PROVIDERS", text)
    assert "hush" not in str(raised.value)
