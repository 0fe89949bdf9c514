"""What the search page says about the time of a query holds for the hits below it, whatever their days are."""

import re
from datetime import date, timedelta

from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from search.pages.time_sentences import sentence_of_time
from search.ranking.time_names import name_of_time
from search.ranking.times.reading import (
    DatedItem,
    Meaning,
    NearEvent,
    TimeOrder,
    TimeReading,
    read_time,
)
from search.ranking.times.relative import DayRange, month_of

TODAY = date(2026, 11, 18)
DAYS = st.dates(date(2015, 1, 1), TODAY)
COUNTED = re.compile(r": (\d+) of these (\d+) results$")
MEANINGS = st.one_of(
    st.builds(lambda first, length: DayRange(first, first + timedelta(length)), DAYS, st.integers(0, 400)),
    st.builds(month_of, DAYS, st.sampled_from((1, 12))),
    st.builds(lambda day, is_before: NearEvent(DatedItem(1, day, 0), is_before), DAYS, st.booleans()),
    st.sampled_from(TimeOrder),
)


def is_within(time: TimeReading, day: date) -> bool:
    match time.meaning:
        case DayRange(first, last):
            return first <= day <= last
        case NearEvent(place, is_before):
            return day <= place.day if is_before else day >= place.day
    raise AssertionError(time)


@given(MEANINGS, st.lists(DAYS, min_size=1, max_size=30), st.booleans())
def test_sentence_about_time_holds_for_all_hits(meaning: Meaning, days: list[date], is_complete: bool) -> None:
    time = TimeReading("then", meaning)
    said = sentence_of_time(time, days, is_complete=is_complete)
    if isinstance(meaning, TimeOrder):
        in_order = sorted(days, reverse=meaning is TimeOrder.LATEST)
        assert (name_of_time(time) in said) == (days == in_order)
        return
    within = [day for day in days if is_within(time, day)]
    if counted := COUNTED.search(said):
        assert (int(counted[1]), int(counted[2])) == (len(within), len(days))
        assert 0 < len(within) < len(days)
    elif "nearest" in said:
        assert not within
        assert is_complete == ("nothing" in said)
    else:
        assert within == days


def test_nearest_day_is_named_if_nothing_is_of_that_time() -> None:
    time = read_time("budget of march 2024", TODAY)
    assert time
    said = sentence_of_time(time, [date(2025, 5, 1), date(2024, 2, 4)], is_complete=True)
    assert said == "“march 2024”: nothing of that time (March 2024) matches; nearest: 4 Feb 2024"


def test_month_without_year_is_that_of_label() -> None:
    time = read_time("the retro in march", TODAY)
    assert time
    said = sentence_of_time(time, [date(2026, 3, 9), date(2025, 3, 9)], is_complete=True)
    assert said.endswith("(March 2026): 1 of these 2 results")


@given(MEANINGS)
def test_time_is_named_in_language_of_page(meaning: Meaning) -> None:
    with translation.override("de"):
        name = name_of_time(TimeReading("then", meaning))
    assert name
    assert not re.search(r"\b(?:March|May|June|July|October|December|to|before|after|the|first)\b", name)


def test_month_is_named_in_hebrew_and_japanese() -> None:
    reading = read_time("what about pumps in march 2024", TODAY)
    assert reading
    names = {}
    for language in ("de", "he", "ja"):
        with translation.override(language):
            names[language] = name_of_time(reading)
    assert names == {"de": "März 2024", "he": "מרץ 2024", "ja": "2024年3月"}
