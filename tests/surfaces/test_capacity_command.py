"""`manage.py capacity`: figures for people and programs, from defaults or from this installation."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from benchmarks.speeds.synthetic import TextMaker, TurnShape, VectorMaker, fill_turns
from convmemory.accounts.callers import Caller
from convmemory.embeddings.spaces import active_space
from convmemory.ops import capacity
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("capacity", "--users", "1000", "--turns-per-user", "5000", *arguments, stdout=out)
    return out.getvalue()


def test_table_has_every_table_and_sums() -> None:
    text = run()
    assert "5,000,000 turns" in text
    assert "search_passageblock                        750,000" in text
    assert "GiB on disk" in text
    assert "hours at 520 texts a second" in text


def test_capacity_uses_and_names_measured_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MIN_ROWS_TO_MEASURE", 100)
    space = active_space()
    with connection.cursor() as cursor:  # a new file: earlier tests have left their dead rows in the old one
        cursor.execute("TRUNCATE search_passageblock CASCADE")
    fill_turns(
        caller=Caller.of(make_user()), space=space, turns=800, maker=TextMaker(), vectors=VectorMaker(space.dimensions),
        shape=TurnShape(passages=4),
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE search_passageblock")
    measured = json.loads(run("--measure", "--json"))
    assert "search_passageblock" in measured["measured"]
    (line,) = [line for line in measured["lines"] if line["table"] == "search_passageblock"]
    assert line["table_bytes"] / line["rows"] == pytest.approx(39_250, rel=0.15)  # 27 passages a row


def test_capacity_of_zero_characters_per_turn_is_refused() -> None:
    with pytest.raises(CommandError, match="--chars-per-turn 0 is not above 0"):
        run("--chars-per-turn", "0")
