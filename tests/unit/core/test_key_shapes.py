"""Keys are found where they stand, by kind; what only looks like one is left alone."""

import json

import pytest

from convmemory.core.key_shapes import find_keys
from tests.support.growth import assert_linear
from tests.support.planted_keys import planted_keys

PLANTED = planted_keys()


@pytest.mark.parametrize("kind", PLANTED)
def test_a_key_is_found_in_running_text(kind: str) -> None:
    text = f"I put it into the settings: {PLANTED[kind]}\nIs that right?"
    [found] = find_keys(text)
    assert found.kind == kind
    value = text[found.start : found.end]
    assert len(value) >= 14
    assert value in PLANTED[kind]
    assert text[: found.start].startswith("I put it into the settings: ")


@pytest.mark.parametrize("kind", PLANTED)
def test_a_key_is_found_in_json_in_json(kind: str) -> None:
    once = json.dumps({"text": PLANTED[kind]})
    for text in (once, json.dumps([once])):
        assert kind in {found.kind for found in find_keys(text)}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_key_is_found_in_a_long_text(kind: str) -> None:
    for text in (f"{'Äpfel, Mehl. ' * 900}{PLANTED[kind]}", f"{PLANTED[kind]} {'Äpfel, Mehl. ' * 900}"):
        assert kind in {found.kind for found in find_keys(text)}


def test_all_of_a_private_key_is_found_even_where_its_end_is_missing() -> None:
    whole = PLANTED["private-key"]
    for text in (whole, whole[: whole.index("-----END")].rstrip()):
        [found] = find_keys(text)
        assert (found.start, found.end) == (0, len(text))


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
def test_text_that_resembles_a_key_is_not_found(text: str) -> None:
    assert find_keys(text) == []


def test_adjacent_keys_are_both_found() -> None:
    text = f"{PLANTED['github-token']} {PLANTED['npm-token']}"
    assert [found.kind for found in find_keys(text)] == ["github-token", "npm-token"]


@pytest.mark.parametrize(
    "beginning", ["eyJ-", "-----BEGIN PRIVATE KEY-----", "a://b:", "pypi-AgEI-", "sk-ant-", "xoxb-"]
)
def test_beginnings_in_a_row_take_no_more_than_linear_time(beginning: str) -> None:
    assert_linear(lambda text: find_keys(text.replace("a-", beginning)), units=("a-",))
