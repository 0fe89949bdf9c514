"""PostgreSQL reads what is indexed in time that grows with the text and no faster.

Processor time of the connection's own process: what else the machine does takes no part in it.
"""

import psutil
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
def test_time_to_index_grows_with_text(unit: str) -> None:
    before = FLOOR_S
    for size in (1_000, 10_000, 100_000):
        now = min(_time_to_parse(searchable((unit * size)[:size])) for _ in range(2))
        assert now < MAX_RATIO * before, f"{now:.3f} s for {size} characters after {before:.3f} s"
        before = max(now, FLOOR_S)


def _time_to_parse(text: str) -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
        if not psutil.pid_exists(pid) or psutil.Process(pid).name() != "postgres":
            pytest.skip("the database is on another machine")
        server = psutil.Process(pid)
        before = server.cpu_times()
        cursor.execute("SELECT length(to_tsvector('convmemory', %s))", [text])
        after = server.cpu_times()
    return after.user + after.system - before.user - before.system
