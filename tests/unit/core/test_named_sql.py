"""Statements are read from a package's `queries.sql` by name."""

import pytest

from convmemory.core.sql import load_sql, split_statements

TWO = """-- name: count_hits
-- The number of hits.
SELECT count(*) FROM hit

-- name: drop_hits
-- Delete all hits;
-- none is left.
DELETE FROM hit
"""


def test_statements_keep_their_comments_and_lose_their_name_lines() -> None:
    assert split_statements(TWO) == {
        "count_hits": "-- The number of hits.\nSELECT count(*) FROM hit\n",
        "drop_hits": "-- Delete all hits;\n-- none is left.\nDELETE FROM hit\n",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT 1\n{TWO}", "must follow a line"),
        (f"{TWO}\n{TWO}", "comes twice"),
        ("-- name: count hits\n-- The number.\nSELECT 1\n", "is no name"),
        ("-- name: count_hits\nSELECT 1\n", "no comment"),
    ],
)
def test_file_that_breaks_rule_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_statements(text)


def test_unknown_name_is_refused_with_its_package() -> None:
    with pytest.raises(LookupError, match=r"search/queries.sql has no statement no_such_statement"):
        load_sql("search", "no_such_statement")


def test_statement_begins_with_what_it_answers() -> None:
    assert load_sql("search.results", "hits").startswith("-- ")
