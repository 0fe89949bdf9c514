"""Dates that a query names, and words that only look like one."""

from datetime import date

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from search.ranking.in_time import closeness
from search.ranking.times.reading import CalendarPeriod, find_date


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("What did she paint in July 2023?", CalendarPeriod(2023, 7, None)),
        ("the film of 1 May, 2022", CalendarPeriod(2022, 5, 1)),
        ("on December 1,2023", CalendarPeriod(2023, 12, 1)),
        ("what happened on 8th December", CalendarPeriod(None, 12, 8)),
        ("notes of 2023-10-13 and later", CalendarPeriod(2023, 10, 13)),
        ("releases of 2024-02", CalendarPeriod(2024, 2, None)),
        ("how often in 2023", CalendarPeriod(2023, None, None)),
        ("the deploy in march", CalendarPeriod(None, 3, None)),
        ("what was said on may 3", CalendarPeriod(None, 5, 3)),
        ("Feb. 3", CalendarPeriod(None, 2, 3)),
    ],
)
def test_named_date_is_found(text: str, period: CalendarPeriod) -> None:
    words_with_period = find_date(text)
    assert words_with_period
    assert words_with_period[1] == period


@pytest.mark.parametrize(
    "text",
    [
        "this may break",
        "version 1.2 may break",
        "I may 3 times retry",
        "march to the sea",
        "run 5 mar files",
        "error 2023-13-45",
        "2023-00-10",
        "listen on port 2023",
        "dec and sep columns",
        "",
    ],
)
def test_other_words_and_numbers_are_no_dates(text: str) -> None:
    assert find_date(text) is None


def test_verb_may_is_not_read_as_month() -> None:
    assert find_date("what may happen in March 2024") == ("March 2024", CalendarPeriod(2024, 3, None))


def days_since_1970(*dates: date) -> NDArray[np.int64]:
    return np.array([(moment - date(1970, 1, 1)).days for moment in dates], np.int64)


def test_turns_count_less_more_days_lie_between() -> None:
    days = days_since_1970(date(2023, 5, 10), date(2023, 5, 3), date(2023, 9, 1), date(2023, 5, 3))
    assert_allclose(closeness(CalendarPeriod(2023, 5, 3), days), [0.36788, 1, 0, 1], atol=1e-4)


def test_closeness_ends_after_one_week() -> None:
    assert closeness(CalendarPeriod(2023, 5, 3), days_since_1970(date(2023, 5, 10)))[0] == pytest.approx(
        0.36788, abs=1e-4
    )
    assert closeness(CalendarPeriod(2023, 5, 3), days_since_1970(date(2023, 5, 11)))[0] == 0


def test_period_without_year_matches_any_year() -> None:
    december = CalendarPeriod(None, 12, None)
    assert december.days_from(date(2021, 12, 31)) == 0
    assert december.days_from(date(2024, 1, 2)) == 2
    assert december.days_from(date.max) == 0
    assert december.days_from(date.min) > 300


def test_day_that_month_lacks_is_its_last_one() -> None:
    assert CalendarPeriod(2023, 2, 31).days_from(date(2023, 2, 28)) == 0


def test_closeness_is_zero_when_no_turn_is_near() -> None:
    assert not closeness(CalendarPeriod(2019, None, None), days_since_1970(date(2020, 2, 1), date(2023, 1, 1))).any()
    assert closeness(CalendarPeriod(2019, None, None), days_since_1970()).size == 0
