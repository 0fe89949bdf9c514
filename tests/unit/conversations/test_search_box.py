"""Filters that are typed into the search box."""

from urllib.parse import parse_qsl

import pytest

from convmemory.conversations.pages.search_box import SearchBox, impossible_filters, misspelt_filters


def read(text: str, *, is_typing: bool = False) -> dict[str, str]:
    return dict(parse_qsl(SearchBox(q=text.strip()).with_tokens(text, is_typing=is_typing).query_string))


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("deadlock", {"q": "deadlock"}),
        ("deadlock agent:codex", {"q": "deadlock", "agent": "codex"}),
        ("agent:codex deadlock project:/src/x", {"q": "deadlock", "agent": "codex", "project": "/src/x"}),
        ('project:"my notes" rye', {"q": "rye", "project": "my notes"}),
        ("AGENT:codex", {"agent": "codex"}),
        ("after:2026-05", {"after": "2026-05-01"}),
        ("before:2026-02", {"before": "2026-02-28"}),
        ("after:2025 before:2025", {"after": "2025-01-01", "before": "2025-12-31"}),
        ("after:2026-05-03", {"after": "2026-05-03"}),
        ("after:soon", {"after": "soon"}),
        ("in:tools", {"scope": "tool"}),
        ("in:tools in:questions", {"scope": "tool,user"}),
        ("in:thinking,tools", {"scope": "thinking,tool"}),
        ("in:documents", {"kind": "section"}),
        ("is:archived", {"archived": "1"}),
        ("sort:date by:words", {"sort": "date", "mode": "full_text"}),
        ("role:tool", {"scope": "tool"}),
        ("has:code rye IS:starred", {"q": "rye has:code is:starred"}),
        ('title:"rye bread" model:haiku tag:oven', {"q": 'title:"rye bread" model:haiku tag:oven'}),
    ],
)
def test_tokens_become_filters(text: str, parameters: dict[str, str]) -> None:
    assert read(text) == parameters


@pytest.mark.parametrize(
    "text",
    ["in:front", "is:it", "sort:me", "by:hand", "http://agent:80", "reagent:x", 'agent:"', "agent:", "in:tools,x"],
)
def test_unknown_filter_token_stays_text(text: str) -> None:
    assert read(text) == {"q": text}


def test_unfinished_filter_token_is_ignored_while_typing() -> None:
    assert read("rye agent:cod", is_typing=True) == {"q": "rye"}
    assert read("rye agent:cod ", is_typing=True) == {"q": "rye", "agent": "cod"}


def test_typed_tokens_become_form_fields() -> None:
    box = SearchBox().with_tokens("in:tools is:archived agent:codex")
    assert box.typed_fields == {"agent": ["codex"], "archived": "1", "scope": ["tool"]}


def test_search_box_without_filters_omits_them_from_address() -> None:
    box = SearchBox(q="rye", agent=("codex", "aider"), after="2026-01-01", before="2026-02-01")
    assert box.without("after", "before") == "q=rye&agent=codex&agent=aider"


def test_typed_agents_and_chosen_ones_mean_any_of_them() -> None:
    box = SearchBox(agent=("codex",)).with_tokens('agent:aider agent:codex project:"my notes" rye')
    assert (box.agent, box.project, box.q) == (("codex", "aider"), ("my notes",), "rye")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("projct:oven fence", [("projct", "project")]),
        ("agnt:codex befor:2026", [("agnt", "agent"), ("befor", "before")]),
        ("project:oven agent:codex", []),
        ("see https://example.org and error:timeout note: this", []),
        ("x" * 3_000 + " projct:oven", []),
    ],
)
def test_misspelt_filter_is_named_with_the_one_it_resembles(text: str, found: list[tuple[str, str]]) -> None:
    assert misspelt_filters(text) == found


def test_filter_with_impossible_value_is_named_with_the_possible_ones() -> None:
    assert impossible_filters("rye has:sound") == [("has", "code, image, link")]
    assert impossible_filters(SearchBox().with_tokens("rye has:code is:pinned").q) == []


def test_tokens_that_stay_in_the_box_are_conditions() -> None:
    box = SearchBox().with_tokens("rye has:CODE is:pinned space:barn")
    assert (box.q, box.conditions, box.space_named) == ("rye", (("has", "code"), ("is", "pinned")), "barn")
    assert SearchBox().with_tokens(box.text) == box
