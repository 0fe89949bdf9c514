from datetime import UTC, datetime, timedelta

import pytest

from convmemory.conversations.importers.values import key_of, text_of, time_of

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-02T12:00:00Z",
        "2026-01-02T12:00:00.000000000+00:00",
        "2026-01-02T13:00:00+01:00",
        "2026-01-02 12:00:00",
        NOON.timestamp(),
        int(NOON.timestamp()),
        int(NOON.timestamp() * 1000),
        int(NOON.timestamp() * 1_000_000),
        str(int(NOON.timestamp())),
        str(int(NOON.timestamp() * 1000)),
        NOON,
        NOON.replace(tzinfo=None),
    ],
)
def test_times_in_every_usual_form(value: object) -> None:
    assert time_of(value) == NOON


@pytest.mark.parametrize(
    "value",
    [
        *(None, "", "yesterday", "[REDACTED:PII]", "127.0.0.1", True, [], {}, "1989-12-31T23:59:59Z"),
        *(0, -1, 10**400, float("nan"), float("inf"), "9" * 400, "0001-01-01T00:00:00+23:59"),
        datetime.now(UTC) + timedelta(days=3),
    ],
)
def test_missing_and_absurd_times_are_none(value: object) -> None:
    assert time_of(value) is None


def test_a_clock_that_is_a_day_ahead_is_believed() -> None:
    assert time_of(datetime.now(UTC) + timedelta(days=1)) is not None


def test_text_of_removes_unstorable_characters() -> None:
    assert text_of("a\0b\ud800") == "ab\ufffd"
    assert text_of(3) == ""


def test_long_keys_stay_different() -> None:
    first, second = key_of("x" * 500 + "1"), key_of("x" * 500 + "2")
    assert first != second
    assert len(first) == 150
    assert key_of("short") == "short"
