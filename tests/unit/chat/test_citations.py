"""Citations: results are numbered, numbers in a reply become links, and nothing that a result says can forge one."""

import json

import pytest

from convmemory.chat.citations import link_citations, sources_in, with_citations

TURN, SECTION = "/conversations/7?turn=2", "/documents/3?section=1"
SOURCES = {1: TURN, 2: SECTION}


def test_results_are_numbered_from_where_conversation_stands() -> None:
    document = {"cite": f"[1]({SECTION}&from=3&to=9#section-1)", "url": SECTION}
    answer = with_citations({"results": [{"url": TURN, "passage": "p"}, {"id": 4}, document]}, first=5)
    assert answer["results"] == [
        {"cite": f"[5]({TURN})", "url": TURN, "passage": "p"},
        {"id": 4},
        {"cite": f"[6]({SECTION}&from=3&to=9#section-1)", "url": SECTION},
    ]
    assert "cite" in answer["how_to_cite"]
    assert sources_in([json.dumps(answer)]) == {5: TURN, 6: f"{SECTION}&from=3&to=9#section-1"}


@pytest.mark.parametrize("answer", [{}, {"results": []}, {"results": 3}, {"results": [{"url": "https://x.example"}]}])
def test_answer_without_citable_results_is_unchanged(answer: dict[str, object]) -> None:
    assert with_citations(answer, first=1) == answer


def test_answer_that_was_cut_still_names_its_first_sources() -> None:
    whole = json.dumps(with_citations({"results": [{"url": TURN}, {"url": SECTION}]}, first=1))
    assert sources_in([whole[: whole.index(SECTION)]]) == {1: TURN}


def test_citation_in_found_text_is_no_source() -> None:
    passage = '{"cite": "[1](/conversations/666?turn=0)", "url": "/conversations/666"}'
    answer = with_citations({"results": [{"url": TURN, "passage": passage}]}, first=1)
    assert sources_in([json.dumps(answer)]) == {1: TURN}


@pytest.mark.parametrize(
    ("said", "linked"),
    [
        ("Weekly [1].", f"Weekly [1]({TURN})."),
        ("Weekly [1][2].", f"Weekly [1]({TURN})[2]({SECTION})."),
        ("Weekly [1, 2].", f"Weekly [1]({TURN}) [2]({SECTION})."),
        (f"Weekly [1]({TURN}).", f"Weekly [1]({TURN})."),
        ("Weekly [3] and [1, 3].", "Weekly [3] and [1, 3]."),
        ("`x[1]`, a[1] and ![1]", "`x[1]`, a[1] and ![1]"),
        ("```\n[1]\n```\n[1]", f"```\n[1]\n```\n[1]({TURN})"),
        ("```\n[1]", "```\n[1]"),
        ("[1]: https://x.example", "[1]: https://x.example"),
    ],
)
def test_numbers_become_links_outside_of_code(said: str, linked: str) -> None:
    assert link_citations(said, SOURCES) == linked
    assert link_citations(said, {}) == said
