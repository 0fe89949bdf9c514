"""The days of moments in a time zone, counted for many at once."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.ranking.in_time import days_in

EPOCH = date(1970, 1, 1)
ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia")
SECONDS = st.integers(-20 * 365 * 86_400, 180 * 365 * 86_400)  # from 1950 to 2149


def day_of(second: int, zone: ZoneInfo) -> int:
    return (datetime.fromtimestamp(second, zone).date() - EPOCH).days


@given(st.sampled_from(ZONES), st.lists(SECONDS, max_size=20))
def test_days_in_match_calendar_days_of_time_zone(name: str, seconds: list[int]) -> None:
    zone = ZoneInfo(name)
    assert days_in(zone, np.array(seconds, np.int64)).tolist() == [day_of(second, zone) for second in seconds]


@pytest.mark.parametrize("hour", range(24))
def test_on_day_on_which_clocks_change_every_hour_is_in_its_day(hour: int) -> None:
    zone = ZoneInfo("Europe/Berlin")
    for changing in (datetime(2026, 3, 29, hour, 30, tzinfo=UTC), datetime(2026, 10, 25, hour, 30, tzinfo=UTC)):
        around = [int((changing + timedelta(days=days)).timestamp()) for days in (-1, 0, 1)]
        assert days_in(zone, np.array(around)).tolist() == [day_of(second, zone) for second in around]


def test_moments_outside_of_years_of_calendar_are_counted_too() -> None:
    seconds = np.array([-(2**40), 2**40])
    assert days_in(ZoneInfo("UTC"), seconds).tolist() == (seconds // 86_400).tolist()
