"""Operators of the search box: what they keep out is said, and where text is plain there are none."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.accounts.spaces import create_space
from search.adapters.conversations import index_conversation
from search.query import MODES, SearchQuery
from search.query_text import parse_query
from search.reasons import Reason
from search.searching import SearchResults, search
from tests.factories import exchange, make_conversation, make_user, user_says
from tests.support.stored_rows import stored_for_file

pytestmark = pytest.mark.django_db

TURNS = (
    ("how do I feed a sourdough starter?", "Weekly, with rye flour."),
    ("does the sourdough starter need sugar?", "No, flour and water."),
    ("when does the night train leave?", "At 22:40."),
)


def store_owner() -> User:
    user = make_user()
    made = make_conversation(user, exchange(*TURNS))
    index_conversation(conversation_id=made.pk)
    return user


owner = stored_for_file(store_owner)


def find(owner: User, text: str, *, has_operators: bool = True, mode: str = "hybrid") -> SearchResults:
    return search(caller=Caller.of(owner), query=SearchQuery(text=text, mode=mode, has_operators=has_operators))


def turns(results: SearchResults) -> list[int]:
    return [hit.number for hit in results.hits]


@pytest.mark.parametrize("mode", MODES)
def test_exclusion_that_keeps_out_best_hit_is_named(owner: User, mode: str) -> None:
    found = find(owner, "feed a sourdough starter -rye", mode=mode)
    assert 0 not in turns(found)
    assert found.notes == ("-rye keeps out the result that would come first: remove it to see it.",)


def test_exclusion_that_keeps_out_every_hit_is_named(owner: User) -> None:
    found = find(owner, "sourdough -starter -sugar", mode="full_text")
    assert turns(found) == []
    assert found.notes == ("-starter and -sugar keep out every result: remove them to see some.",)


def test_exclusion_alone_lists_everything_without_it(owner: User) -> None:
    listing = find(owner, "-sourdough")
    assert turns(listing) == [2]
    assert listing.notes == (
        'Everything without “sourdough”, the newest first. To search for it as text: "-sourdough".',
    )
    assert sorted(turns(find(owner, '"-sourdough"'))) == [0, 1]
    assert turns(find(owner, '-"night train" -sugar')) == turns(find(owner, '-"night\0 train" -sugar')) == [0]
    nothing = find(owner, "-sourdough -train")
    assert turns(nothing) == []
    assert nothing.reason is Reason.FILTERED_OUT
    assert turns(find(make_user(), "-nothing")) == []


def test_listing_of_several_archives_is_newest_first(owner: User) -> None:
    space = create_space(person=owner, name="Bakery")
    for year in (2020, 2026):
        written = [user_says(f"what was baked in {year}?", created_at=datetime(year, 5, 1, tzinfo=UTC))]
        index_conversation(conversation_id=make_conversation(space, written).pk)
    hits = find(owner, "-sourdough").hits
    assert [hit.created_at.year for hit in hits] == [2026, 2026, 2020]
    assert [hit.space is None for hit in hits] == [False, True, False]


def test_phrase_that_keeps_out_best_hit_is_named(owner: User) -> None:
    found = find(owner, 'how do I feed a sourdough starter with rye flour and "need sugar"')
    assert turns(found) == [1]
    assert found.notes == ('"need sugar" keeps out the result that would come first: remove it to see it.',)


@pytest.mark.parametrize("text", ["sourdough starter -train", '"sourdough starter" feed', "sourdough -nonsense"])
def test_operators_that_keep_out_nothing_better_are_not_named(owner: User, text: str) -> None:
    assert find(owner, text).notes == ()


def test_phrase_without_match_is_noted(owner: User) -> None:
    found = find(owner, '"starter sourdough" rye')
    assert turns(found)[0] == 0
    assert found.notes == ('No turn contains "starter sourdough" word for word: its words were searched for.',)


def test_plain_text_has_no_operators(owner: User) -> None:
    found = find(owner, 'feed a "starter sourdough" -rye', has_operators=False)
    assert turns(found)[0] == 0
    assert found.notes == ()


def test_operators_are_shown_as_they_are_typed() -> None:
    text = parse_query('"one two" three -four -"five six"')
    assert text.operators == ('"one two"', '-"five six"', "-four")
