"""Keys are found where they stand, by kind; what only looks like one is left alone."""

import json

import pytest

from convmemory.core.key_shapes import find_keys
from tests.support.growth import assert_linear
from tests.support.planted_keys import planted_keys

PLANTED = planted_keys()


@pytest.mark.parametrize("kind", PLANTED)
def test_key_is_found_in_running_text(kind: str) -> None:
    text = f"I put it into the settings: {PLANTED[kind]}\nIs that right?"
    [key] = find_keys(text)
    assert key.kind == kind
    value = text[key.start : key.end]
    assert len(value) >= 14
    assert value in PLANTED[kind]
    assert text[: key.start].startswith("I put it into the settings: ")


@pytest.mark.parametrize("kind", PLANTED)
def test_key_is_found_in_json_in_json(kind: str) -> None:
    once = json.dumps({"text": PLANTED[kind]})
    for text in (once, json.dumps([once])):
        assert kind in {key.kind for key in find_keys(text)}


@pytest.mark.parametrize("kind", PLANTED)
def test_key_is_found_in_long_text(kind: str) -> None:
    for text in (f"{'Äpfel, Mehl. ' * 900}{PLANTED[kind]}", f"{PLANTED[kind]} {'Äpfel, Mehl. ' * 900}"):
        assert kind in {key.kind for key in find_keys(text)}


def test_all_of_private_key_is_found_even_where_its_end_is_missing() -> None:
    whole = PLANTED["private-key"]
    for text in (whole, whole[: whole.index("-----END")].rstrip()):
        [key] = find_keys(text)
        assert (key.start, key.end) == (0, len(text))


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user:password@localhost/db",
        "https://$USER:$TOKEN@example.org/",
        "http://localhost:8000/@scope/package",
        "the port in redis://cache:6379/0",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_" + "x" * 36,
        "sk-proj-...",
        "SKILL.md and SK" + "0" * 10,
        "-----BEGIN PRIVATE KEY----- is how such a file begins",
        "Authorization: Bearer YOUR_API_KEY_GOES_HERE_PLEASE",
        "eyJ is how a JWT begins",
        "commit 3f2a9c1e8b7d6540a1b2c3d4e5f60718293a4b5c",
        "019e19b4-eb48-746a-aa6b-8dfcfa37954b",
    ],
)
def test_text_that_resembles_key_is_not_found(text: str) -> None:
    assert find_keys(text) == []


R32, R40 = "q7Ld0vXz3RmTbK9yWc5uNfJ2hPs8gEaH", "Zr4Tn8Kq1Wd6Mx3Vb9Yc5Lf7Hj2Gs0PaEuXoRiNt"
HEX32 = "9c1e8b7d65f40a1b2c3d4e5f60718293"


@pytest.mark.parametrize(
    "text",
    [
        f"export LINNET_TOKEN='{R32}'",
        f"SET LINNET_KEY={R40}",
        f'{{"clientSecret": "{R40}"}}',
        f"api_key: {HEX32}",
        f"secret_key = '{R40}'",
        f"secret => '{R32}'",
        f"curl -H 'x-api-key: {R40}' https://linnet.example",
        f"https://linnet.example/?api_key={HEX32}&page=1",
        f"linnet --api-key {R32} run",
        f"linnet --token={R32}",
        f'const apiKey = "{R40}";',
        f'\\"access_token\\": \\"{R40}\\"',
        "DB_PASSWORD=Tr0ub4dour&3xq",
        'password: "gX7!pLq2zR"',
        "PGPASSWORD=aB3$xY9kLm psql",
    ],
)
def test_assigned_secret_is_found_in_any_notation(text: str) -> None:
    [key] = find_keys(text)
    assert key.kind == "assigned-secret"
    value = text[key.start : key.end]
    assert value in {R32, R40, HEX32, "Tr0ub4dour&3xq", "gX7!pLq2zR", "aB3$xY9kLm"}


@pytest.mark.parametrize(
    "text",
    [
        "token: process.env.LINNET_TOKEN_2",
        "key=lambda item: item.sort_order_1",
        'apiKey: config.get("apiKey2")',
        'key: "users.profile.displayName2"',
        f'next_page_token = "{R32}"',
        f'cacheKey: "{HEX32}"',
        "password = os.environ['DB_PASSWORD_1']",
        '"key": "2026-11-25T10:00:00Z"',
        "token = tokenizer_v2.encode(text)",
        "secret_name: linnet-app-secret-2026",
        'key = "test_message_store_is_empty_2"',
        "token_count=12345678901234567",
        "apiKey: YOUR_API_KEY_123456789012345",
        "key: /home/ada/projects/convmemory2/file_name.py",
        '"sessionKey":"7d1f0a52-3c1b-4f6e-9a57-2f6b1c9d0e11"',
        "--key-file /etc/ssl/private/server2024.pem",
        "password: changeme",
        "passwd: x:1000:1000",
        "password=$LINNET_PASSWORD_1",
        '"usage": {"input_tokens": 10240, "cache_read_input_tokens": 4096}',
    ],
)
def test_value_that_is_not_random_is_no_assigned_secret(text: str) -> None:
    assert find_keys(text) == []


def test_adjacent_keys_are_both_found() -> None:
    text = f"{PLANTED['github-token']} {PLANTED['npm-token']}"
    assert [key.kind for key in find_keys(text)] == ["github-token", "npm-token"]


@pytest.mark.parametrize(
    "beginning", ["eyJ-", "-----BEGIN PRIVATE KEY-----", "a://b:", "pypi-AgEI-", "sk-ant-", "xoxb-"]
)
def test_beginnings_in_row_take_no_more_than_linear_time(beginning: str) -> None:
    assert_linear(lambda text: find_keys(text.replace("a-", beginning)), units=("a-",))
