"""Time expressions in queries: periods, events, the first and the latest; and words that only resemble them."""

from datetime import date

import numpy as np
import pytest
from numpy.testing import assert_allclose

from search.ranking.in_time import NEAR_EVENT_DAYS, earliness, near_event
from search.ranking.time_names import name_of_range, name_of_time, note_on_time
from search.ranking.times.reading import Anchor, DatedItem, NearEvent, TimeOrder, TimeReading, read_time
from search.ranking.times.relative import DayRange, around, month_of, shifted, week_of

WEDNESDAY = date(2026, 11, 18)
DAY_S = 86_400


def label_of(text: str, today: date = WEDNESDAY) -> str:
    reading = read_time(text, today)
    return "" if reading is None else name_of_time(reading)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("what did we decide last month", "October 2026"),
        ("the retro this month", "November 2026"),
        ("who did I interview yesterday", "17 Nov 2026"),
        ("who did I interview the day before yesterday", "16 Nov 2026"),
        ("what did I ask this morning", "18 Nov 2026"),
        ("the candidates of last week", "9 Nov 2026 to 15 Nov 2026"),
        ("my run last weekend", "14 Nov 2026 to 15 Nov 2026"),
        ("which candidate on Monday", "16 Nov 2026"),
        ("the call last Wednesday", "11 Nov 2026"),
        ("where did we go last summer", "June 2026 to August 2026"),
        ("what did we plant last autumn", "September 2025 to November 2025"),
        ("where did we go the past summer", "June 2026 to August 2026"),
        ("where did we go in summer 2024", "June 2024 to August 2024"),
        ("wohin im Sommer 2024", "June 2024 to August 2024"),
        ("el plan del verano de 2025", "June 2025 to August 2025"),
        ("winter 2024 tyres", "December 2024 to February 2025"),
        ("Spring 2024.0 release train", ""),
        ("what broke the past weekend", "14 Nov 2026 to 15 Nov 2026"),
        ("what broke in the past week", "11 Nov 2026 to 18 Nov 2026"),
        ("can you tell me the latest quote", "the latest first"),
        ("the budget of last quarter", "July 2026 to September 2026"),
        ("the budget of Q4", "October 2026 to December 2026"),
        ("the budget of the first quarter of 2025", "January 2025 to March 2025"),
        ("where did we go last year", "2025"),
        ("what broke in the past two weeks", "4 Nov 2026 to 18 Nov 2026"),
        ("what broke over the last couple of days", "16 Nov 2026 to 18 Nov 2026"),
        ("what broke three days ago", "15 Nov 2026"),
        ("what broke a couple of weeks ago", "1 Nov 2026 to 7 Nov 2026"),
        ("what broke two months ago", "3 Sep 2026 to 3 Oct 2026"),
        ("how I ran at the end of last month", "22 Oct 2026 to 31 Oct 2026"),
        ("the deploy in March", "March 2026"),
        ("the deploy in December", "December 2025"),
        ("the bill of last November", "November 2025"),
        ("What did she paint in July 2023?", "July 2023"),
        ("the latest quote", "the latest first"),
        ("what went wrong the first time", "the oldest first"),
        ("when did we last look at it", "the latest first"),
    ],
)
def test_words_of_time_are_read(text: str, label: str) -> None:
    assert label_of(text) == label


@pytest.mark.parametrize(
    "text",
    [
        "how long before slicing must the bread stand",
        "how many days before a certificate ends should it warn",
        "what should I change first",
        "who is paged next time the pool is empty",
        "tape the heel before the next long run",
        "what must be done before the deploy",
        "who looks after the dog in the daytime",
        "runs-on: ubuntu-latest",
        "django-q2 workers",
        "delete the old cluster after 14 days",
        "sketches before tickets",
        "what will it cost next month",
        "this may break",
        "the last line of the file",
        "",
    ],
)
def test_words_that_resemble_time_expressions_are_not_read(text: str) -> None:
    assert read_time(text, WEDNESDAY) is None


def test_event_is_named_with_how_far_away_it_is() -> None:
    reading = read_time("what was open two weeks before the launch of Harbour?", WEDNESDAY)
    assert reading is not None
    assert isinstance(reading.meaning, Anchor)
    assert (reading.meaning.event, reading.meaning.is_before) == ("the launch of Harbour", True)
    assert not note_on_time(reading)
    found = reading.at(DatedItem(1, date(2026, 9, 8), 0))
    assert found.meaning == DayRange(date(2026, 8, 22), date(2026, 8, 28))
    assert note_on_time(found) == "Read “two weeks before the launch of Harbour” as 22 Aug 2026 to 28 Aug 2026."


def test_event_without_distance_means_any_time_before_it() -> None:
    reading = read_time("what did the queue run on before we moved to Kafka", WEDNESDAY)
    assert reading is not None
    place = DatedItem(7, date(2026, 2, 18), 0)
    assert reading.at(place) == TimeReading("before we moved to Kafka", NearEvent(place, is_before=True))
    assert not reading.rest
    assert name_of_time(reading.at(place)) == "before 18 Feb 2026"


def test_long_clause_after_event_word_is_no_time() -> None:
    assert read_time("after the edit " + "the tests ran again and the build was green " * 3, WEDNESDAY) is None


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("who owns the decision of last month's retro", "who owns the decision of retro"),
        ("what was open two weeks before the launch of Harbour?", "what was open ?"),
        ("which candidate yesterday", "which candidate"),
        ("our cloud budget in Q3", "our cloud budget in"),
        ("anything yesterday", "anything yesterday"),
    ],
)
def test_rest_of_query_omits_its_time_expression(text: str, rest: str) -> None:
    reading = read_time(text, WEDNESDAY)
    assert reading is not None
    assert reading.rest == rest


def test_written_date_needs_no_note() -> None:
    reading = read_time("in July 2023", WEDNESDAY)
    assert reading == TimeReading("July 2023", month_of(date(2023, 7, 1)))
    assert reading is not None
    assert not note_on_time(reading)


@pytest.mark.parametrize("text", ["what was 999 years ago", "999 years before the launch", "in the last 999 years"])
def test_huge_number_of_years_stays_within_calendar(text: str) -> None:
    reading = read_time(text, WEDNESDAY)
    assert reading is not None
    assert name_of_time(reading.at(DatedItem(1, date(1, 1, 1), 0)))


def test_every_day_of_four_years_can_be_today() -> None:
    texts = ["last month", "last quarter", "last winter", "12 months ago", "q3", "the end of last year", "in February"]
    for number in range(4 * 366):
        today = shifted(date(2023, 1, 1), days=number)
        for text in texts:
            reading = read_time(text, today)
            assert reading is not None
            assert isinstance(reading.meaning, DayRange)
            assert reading.meaning.first <= today


def test_calendar_arithmetic_stays_within_calendar() -> None:
    assert shifted(date(2024, 3, 31), months=-1) == date(2024, 2, 29)
    assert shifted(date(2024, 2, 29), months=-12) == date(2023, 2, 28)
    assert shifted(date(3, 1, 1), months=-48) == date.min
    assert shifted(date(9998, 1, 1), months=48) == date.max
    assert shifted(date.max, days=1) == date.max
    assert week_of(WEDNESDAY) == DayRange(date(2026, 11, 16), date(2026, 11, 22))
    assert month_of(date(2024, 2, 3)) == DayRange(date(2024, 2, 1), date(2024, 2, 29))
    assert around(WEDNESDAY, 1).days_from(date(2026, 11, 21)) == 2


def test_earliness_orders_equal_scores_by_time_and_ignores_poor_ones() -> None:
    scores = np.array([10.0, 10.0, 10.0, 1.0], np.float32)
    seconds = np.array([100, 300, 200, 400])
    assert_allclose(earliness(scores, seconds, order=TimeOrder.LATEST), [0, 1, 0.5, 0])
    assert_allclose(earliness(scores, seconds, order=TimeOrder.FIRST), [1, 0, 0.5, 0])


def test_earliness_of_single_answer_is_zero() -> None:
    assert not earliness(np.array([10.0, 1.0], np.float32), np.array([1, 2]), order=TimeOrder.LATEST).any()


def test_right_side_of_event_counts_less_further_away() -> None:
    event = NearEvent(DatedItem(5, date(2026, 1, 1), 100 * DAY_S), is_before=True)
    keys, seconds = (
        np.array([1, 4, 5, 6, 9]),
        np.array([100 - NEAR_EVENT_DAYS, 100, 100, 100, 100 + NEAR_EVENT_DAYS]) * DAY_S,
    )
    assert_allclose(near_event(event, keys, seconds), [np.exp(-1), 1, 1, 0, 0], atol=1e-4)
    after = NearEvent(event.place, is_before=False)
    assert_allclose(near_event(after, keys, seconds), [0, 0, 1, 1, np.exp(-1)], atol=1e-4)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("What did we discuss last week?", "9 Nov 2026 to 15 Nov 2026"),
        ("in September 2026", "September 2026"),
        ("what happened in May", "May 2026"),
        ("what did we say about the deploy last week", ""),
        ("anything since October", ""),
    ],
)
def test_question_of_time_alone_names_its_days(text: str, label: str) -> None:
    reading = read_time(text, WEDNESDAY)
    days = reading.days_alone(text) if reading else None
    assert (name_of_range(days) if days else "") == label
