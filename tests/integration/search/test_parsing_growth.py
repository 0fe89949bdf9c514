"""PostgreSQL reads what is indexed in time that grows with the text and no faster."""

import time

import pytest
from django.db import connection

from search.vectors.texts import searchable

UNITS = [
    "a_",
    "~/",
    "<!--",
    "<!-- ",
    "a-1-",
    "1.a-",
    "a",
    "7",
    "/",
    "http://a",
    "é-",
    "中",
    "<a ",
    '<a b=" ',
    "a@",
    "&#",
]
MAX_RATIO = 20
FLOOR_S = 0.02


@pytest.mark.django_db
@pytest.mark.parametrize("unit", UNITS)
def test_the_time_to_index_grows_with_the_text(unit: str) -> None:
    before = FLOOR_S
    for size in (1_000, 10_000, 100_000):
        now = min(_time_to_parse(searchable((unit * size)[:size])) for _ in range(2))
        assert now < MAX_RATIO * before, f"{now:.3f} s for {size} characters after {before:.3f} s"
        before = max(now, FLOOR_S)


def _time_to_parse(text: str) -> float:
    with connection.cursor() as cursor:
        start = time.perf_counter()
        cursor.execute("SELECT length(to_tsvector('convmemory', %s))", [text])
        return time.perf_counter() - start
