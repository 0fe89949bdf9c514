"""Every filter that is declared is offered by every surface, and compared by lists and searches."""

from dataclasses import fields
from datetime import UTC, datetime

import pytest
from django.core.management import load_command_class

from convmemory.api import api
from convmemory.conversations.filters import DECLARED, Filters, conditions_on_conversations, filters_of
from convmemory.conversations.models import Conversation
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.tools.registry import tool_definitions
from search.models import Item, Source
from search.query_text import QueryText
from search.retrieval.filters import filter_sql

ROUTES = ("/conversations", "/conversations/export", "/conversations/search", "/search")
COMMANDS = (("search", "conversation_search"), ("convmemory.conversations", "export_conversations"))
VALUES = {"agent": "a", "project": "p", "source": "s", "after": datetime(2026, 1, 1, tzinfo=UTC)}
VALUES |= {"before": datetime(2026, 2, 1, tzinfo=UTC), "archived": True}


@pytest.mark.parametrize("route", ROUTES)
def test_route_takes_every_filter(route: str) -> None:
    parameters = api.get_openapi_schema()["paths"][f"/api/v1{route}"]["get"]["parameters"]
    assert DECLARED.keys() <= {parameter["name"] for parameter in parameters}


@pytest.mark.parametrize(("app", "name"), COMMANDS)
def test_command_takes_every_filter(app: str, name: str) -> None:
    parser = load_command_class(app, name).create_parser("manage.py", name)
    assert {f"--{name}" for name in DECLARED} <= parser._option_string_actions.keys()


def test_search_box_keeps_every_filter() -> None:
    assert DECLARED.keys() <= {each.name for each in fields(SearchBox)}


def test_tools_offer_filters_under_their_names() -> None:
    for tool in tool_definitions():
        offered = DECLARED.keys() & tool.input_model.model_fields.keys()
        assert filters_of({name: VALUES[name] for name in offered}) is not None


def test_every_filter_is_compared_by_lists_and_searches() -> None:
    assert VALUES.keys() == DECLARED.keys(), "give the new filter a value here"
    for name, value in VALUES.items():
        chosen = filters_of({name: value})
        assert conditions_on_conversations(chosen) != conditions_on_conversations(Filters()), name
        text = QueryText("")
        assert filter_sql(chosen, text) != filter_sql(Filters(), text), name


def test_columns_exist() -> None:
    for how in DECLARED.values():
        if how.operator:
            indexed = Source if how.operator == "=" else Item
            assert Conversation._meta.get_field(how.column)
            assert indexed._meta.get_field(how.indexed)
