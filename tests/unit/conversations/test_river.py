"""Periods with their names and neighbours, and the drawing of the river."""

from datetime import date
from itertools import pairwise

import pytest
from django.utils.translation import override

from convmemory.conversations.river import HALF, LABELS, Column, Period, River, _months, drawing_of

YEAR, MAY = Period.of_year(2024), Period.of_month(2024, 5)
DAY = Period(date(2024, 5, 14), date(2024, 5, 14))


@pytest.mark.parametrize(
    ("period", "english", "german"),
    [
        (YEAR, "2024", "2024"),
        (MAY, "May 2024", "Mai 2024"),
        (DAY, "14 May 2024", "14. Mai 2024"),
        (Period(date(2024, 5, 1), date(2024, 9, 30)), "May 2024 to September 2024", ""),
        (Period(date(2024, 5, 2), date(2024, 9, 30)), "2 May 2024 to 30 Sep 2024", ""),
    ],
)
def test_period_is_named_as_people_do(period: Period, english: str, german: str) -> None:
    with override("en"):
        assert period.label == english
    if german:
        with override("de"):
            assert period.label == german


def test_period_leads_to_wider_one_and_to_neighbours_of_its_kind() -> None:
    assert YEAR.ways == [Period.of_year(2023), Period.of_year(2025)]
    assert MAY.ways == [YEAR, Period.of_month(2024, 4), Period.of_month(2024, 6)]
    assert [str(other.first) for other in DAY.ways] == ["2024-05-01", "2024-05-13", "2024-05-15"]
    week = Period(date(2024, 5, 6), date(2024, 5, 12))
    assert week.ways == [Period(date(2024, 4, 29), date(2024, 5, 5)), Period(date(2024, 5, 13), date(2024, 5, 19))]
    winter = Period(date(2023, 12, 1), date(2024, 2, 29))
    assert winter.ways == [Period(date(2023, 9, 1), date(2023, 11, 30)), Period(date(2024, 3, 1), date(2024, 5, 31))]


def test_period_at_end_of_calendar_has_no_neighbour_beyond_it() -> None:
    assert Period.of_year(1).ways == [Period.of_year(2)]
    assert Period.of_year(9999).ways == [Period.of_year(9998)]
    assert Period(date.min, date.max).ways == []
    assert Period(date(2, 1, 1), date.max).ways == []


def test_band_is_drawn_where_messages_are_and_thickest_where_they_are_most() -> None:
    assert drawing_of([0, 0, 0], 5) == ""
    drawing = drawing_of([0, 1, 0, 0, 4, 100], 100)
    assert (drawing.count("M"), drawing.count("Z")) == (2, 2)
    assert f" {HALF - HALF}" in drawing  # the upper edge of the most messages
    assert drawing.startswith(f"M4 {HALF}C5 {HALF}")
    numbers = [int(word) for word in drawing.replace("M", " ").replace("C", " ").replace("Z", " ").split()]
    assert min(numbers) == 0
    assert max(numbers) == 2 * HALF


def picture(period: Period, *, by_day: bool) -> River:
    if by_day:
        days = [date.fromordinal(number) for number in range(period.first.toordinal(), period.last.toordinal() + 1)]
        spans = [Period(day, day) for day in days]
    else:
        numbers = range(12 * period.first.year + period.first.month - 1, 12 * period.last.year + period.last.month)
        spans = [Period.of_month(number // 12, number % 12 + 1) for number in numbers]
    columns = [Column(span, place % 3) for place, span in enumerate(spans)]
    return River("project", period, "day" if by_day else "month", columns, (), 0, {})


@pytest.mark.parametrize("days", [1, 7, 28, 29, 30, 31, 59, 60, 61, 92, 100])
def test_labels_of_days_leave_room_between_them(days: int) -> None:
    first = date(2024, 1, 17)
    labels = picture(Period(first, date.fromordinal(first.toordinal() + days - 1)), by_day=True).labels
    assert 1 <= len(labels) <= LABELS
    places = [float(label.at.rstrip("%")) for label in labels]
    assert all(after - before >= 14 for before, after in pairwise(places))


@pytest.mark.parametrize("years", [1, 2, 3, 5, 9, 10, 11, 25, 30, 32])
def test_labels_of_months_leave_room_between_them(years: int) -> None:
    labels = picture(Period(date(2026 - years, 3, 1), date(2026, 2, 28)), by_day=False).labels
    assert 1 <= len(labels) <= LABELS
    places = [float(label.at.rstrip("%")) for label in labels]
    assert all(after - before >= 14 for before, after in pairwise(places))


@pytest.mark.parametrize("years", [[2004, 2015, 2016], [1997, 2026], [2000, 2005, 2010, 2015, 2020, 2026]])
def test_labels_next_to_empty_years_leave_room_between_them(years: list[int]) -> None:
    spans = _months(Period(date(1997, 1, 1), date(2026, 12, 31)), set(years))
    shown = River("project", Period.of_year(2026), "month", [Column(span, 1) for span in spans], (), 0, {})
    assert shown.gaps
    places = [float(label.at.rstrip("%")) for label in shown.labels]
    assert 1 <= len(places) <= LABELS + 1
    assert all(after - before >= 14 for before, after in pairwise(places))


def test_list_says_what_picture_shows_the_newest_first() -> None:
    shelves = picture(Period(date(2024, 11, 1), date(2025, 3, 31)), by_day=False).shelves
    with override("en"):
        assert [(shelf.column.period.label, shelf.column.messages) for shelf in shelves] == [("2025", 3), ("2024", 1)]
        assert [column.period.label for column in shelves[0].columns] == ["March 2025", "January 2025"]
    (month,) = picture(MAY, by_day=True).shelves
    assert month.column == Column(MAY, sum(place % 3 for place in range(31)))
    assert month.columns[0].period == Period(date(2024, 5, 30), date(2024, 5, 30))
