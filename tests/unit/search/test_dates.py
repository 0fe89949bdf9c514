"""Dates that a query names, and words that only look like one."""

from datetime import date

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from search.ranking.in_time import closeness
from search.ranking.times.reading import find_date
from search.ranking.times.relative import DayRange, around, month_of

TODAY = date(2026, 11, 18)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("What did she paint in July 2023?", month_of(date(2023, 7, 1))),
        ("the film of 1 May, 2022", around(date(2022, 5, 1), 0)),
        ("on December 1,2023", around(date(2023, 12, 1), 0)),
        ("what happened on 8th December", DayRange(date(2025, 12, 8), date(2025, 12, 8), recurs=True)),
        ("notes of 2023-10-13 and later", around(date(2023, 10, 13), 0)),
        ("releases of 2024-02", month_of(date(2024, 2, 1))),
        ("how often in 2023", month_of(date(2023, 1, 1), 12)),
        ("the deploy in march", DayRange(date(2026, 3, 1), date(2026, 3, 31), recurs=True)),
        ("what was said on may 3", DayRange(date(2026, 5, 3), date(2026, 5, 3), recurs=True)),
        ("Feb. 3", DayRange(date(2026, 2, 3), date(2026, 2, 3), recurs=True)),
    ],
)
def test_named_date_is_found(text: str, days: DayRange) -> None:
    words_with_days = find_date(text, TODAY)
    assert words_with_days
    assert words_with_days[1] == days


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
    assert find_date(text, TODAY) is None


def test_verb_may_is_not_read_as_month() -> None:
    assert find_date("what may happen in March 2024", TODAY) == ("March 2024", month_of(date(2024, 3, 1)))


def days_since_1970(*dates: date) -> NDArray[np.int64]:
    return np.array([(moment - date(1970, 1, 1)).days for moment in dates], np.int64)


def test_turns_count_less_more_days_lie_between() -> None:
    days = days_since_1970(date(2023, 5, 10), date(2023, 5, 3), date(2023, 9, 1), date(2023, 5, 3))
    assert_allclose(closeness(around(date(2023, 5, 3), 0), days), [0.36788, 1, 0, 1], atol=1e-4)


def test_closeness_ends_after_one_week() -> None:
    assert closeness(around(date(2023, 5, 3), 0), days_since_1970(date(2023, 5, 10)))[0] == pytest.approx(
        0.36788, abs=1e-4
    )
    assert closeness(around(date(2023, 5, 3), 0), days_since_1970(date(2023, 5, 11)))[0] == 0


def test_period_without_year_matches_any_year() -> None:
    december = DayRange(date(2025, 12, 1), date(2025, 12, 31), recurs=True)
    assert december.days_from(date(2021, 12, 31)) == 0
    assert december.days_from(date(2024, 1, 2)) == 2
    assert december.days_from(date.max) == 0
    assert december.days_from(date.min) > 300


def test_day_that_month_lacks_is_its_last_one() -> None:
    assert find_date("on 31 Feb 2023", TODAY) == ("31 Feb 2023", around(date(2023, 2, 28), 0))
    each_year = DayRange(date(2024, 2, 29), date(2024, 2, 29), recurs=True)
    assert each_year.days_from(date(2023, 2, 28)) == each_year.days_from(date(2020, 2, 29)) == 0
    assert DayRange(date(2023, 2, 1), date(2023, 2, 28), recurs=True).days_from(date(2020, 2, 29)) == 0


def test_closeness_is_zero_when_no_turn_is_near() -> None:
    assert not closeness(month_of(date(2019, 1, 1), 12), days_since_1970(date(2020, 2, 1), date(2023, 1, 1))).any()
    assert closeness(month_of(date(2019, 1, 1), 12), days_since_1970()).size == 0
