from datetime import UTC, datetime, timedelta

import pytest

from convmemory.conversations.importers.values import DayOrder, day_order, key_of, text_of, time_of

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


def test_clock_that_is_day_ahead_is_believed() -> None:
    assert time_of(datetime.now(UTC) + timedelta(days=1)) is not None


def test_text_of_removes_unstorable_characters() -> None:
    assert text_of("a\0b\ud800") == "ab\ufffd"
    assert text_of(3) == ""


def test_long_keys_stay_different() -> None:
    first, second = key_of("x" * 500 + "1"), key_of("x" * 500 + "2")
    assert first != second
    assert len(first) == 150
    assert key_of("short") == "short"


@pytest.mark.parametrize(
    ("shown", "order", "expected"),
    [
        ("5/1/2026, 10:00:00 AM", "", None),
        ("5/1/2026, 10:00:00 AM", "month first", "2026-05-01T10:00:00+00:00"),
        ("5/1/2026, 10:00:00", "day first", "2026-01-05T10:00:00+00:00"),
        ("5/13/2026, 1:00:05\u202fPM", "", "2026-05-13T13:00:05+00:00"),
        ("13/05/2026, 10:00:00", "month first", "2026-05-13T10:00:00+00:00"),
        ("1.5.2026, 10:00:00", "", "2026-05-01T10:00:00+00:00"),
        ("2026/5/1 下午3:00:00", "", "2026-05-01T15:00:00+00:00"),
        ("2026-5-1 @10h 01m 02s 123ms", "", "2026-05-01T10:01:02+00:00"),
        ("May 1, 2026 12:30am", "", "2026-05-01T00:30:00+00:00"),
        ("Mayday 1, 2026 99:30am", "", None),
        ("31/31/2026, 10:00:00", "day first", None),
    ],
)
def test_times_as_browsers_show_them_are_read(shown: str, order: DayOrder, expected: str | None) -> None:
    time = time_of(shown, order)
    assert (time and time.isoformat()) == expected


def test_order_of_day_and_month_is_what_all_dates_of_file_agree_on() -> None:
    texts = [b'"date": "5/1/2026, 10:00', b':00 AM"}, {"date": "5/13/2026, 10:00:00 AM"']
    assert day_order(texts) == "month first"
    assert day_order([b'"13/5/2026, 10:00"']) == "day first"
    assert day_order([*texts, b'"13/5/2026, 10:00"']) == day_order([b"no dates"]) == ""
