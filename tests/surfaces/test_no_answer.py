"""Unanswered queries on page, API, command, tools and recall; answered queries are never silenced."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from convmemory.accounts.callers import Caller
from convmemory.embeddings import spaces
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.tools.registry import run_tool
from memory.recall import RecallQuery, recall
from search.adapters.conversations import index_conversation
from search.pages.groups import band_of
from search.query import SearchQuery
from search.reasons import NOTHING_BROUGHT
from search.reasons import ONLY_NEAREST as BELOW_BAR
from search.searching import search
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import Api, problem_of, signed_in
from tests.support.documents import indexed, upload
from tests.support.stored_rows import stored_for_file
from tests.support.tiny_bert import write_tiny_bert

pytestmark = pytest.mark.django_db

ONLY_NEAREST = BELOW_BAR.for_tools
NONSENSE = "zzqqxx blorf"
QUESTION = "how long do I boil an egg?"
PAIRS = [
    (QUESTION, "Seven minutes for a soft one."),
    ("my sourdough stays flat", "The starter is too cold; keep it at 26 degrees."),
    ("which knife do I need for bread?", "A serrated one, it tears the crumb less."),
    ("the gate of the garden is rusty, which paint holds?", "Use a metal primer first, then two coats of enamel."),
    ("when does the train to Ghent leave on Sundays?", "At ten past nine, from platform four."),
]


def store_archive() -> User:
    owner = make_user()
    index_conversation(conversation_id=make_conversation(owner, exchange(*PAIRS), title="House").pk)
    return owner


stored_archive = stored_for_file(store_archive)


@pytest.fixture
def archive(stored_archive: User, settings: Any) -> User:
    settings.SEARCH_MIN_RELEVANCE, settings.RECALL_MIN_RELEVANCE = 0.37, 0.25
    return stored_archive


def page_of(user: User, **query: str) -> str:
    client = signed_in(user)
    response = client.get("/search", query)
    assert response.status_code == 200
    return str(response.content.decode())


def test_page_says_that_nothing_answers_and_shows_nearest_when_asked(archive: User) -> None:
    text = page_of(archive, q=NONSENSE)
    assert f"Nothing here seems to answer “{NONSENSE}”" in text
    assert 'class="item hit"' not in text
    assert ONLY_NEAREST not in text
    assert 'href="/search?q=zzqqxx+blorf&amp;nearest=1"' in text
    nearest = page_of(archive, q=NONSENSE, nearest="1")
    assert 'class="item hit"' in nearest
    assert ONLY_NEAREST in nearest
    assert "seems to answer “" not in nearest


def test_nothing_likely_is_folded_while_turns_wait_too(archive: User) -> None:
    make_conversation(archive, exchange(("which oil for the gate?", "Linseed.")))
    text = page_of(archive, q=NONSENSE)
    assert f"Nothing yet seems to answer “{NONSENSE}”" in text
    assert f"Not everything can be found yet: 1 of {len(PAIRS) + 1} turns" in text
    assert 'class="item hit"' not in text
    assert 'class="item hit"' in page_of(archive, q=NONSENSE, nearest="1")


def test_less_likely_results_are_folded_behind_their_number(archive: User) -> None:
    text = page_of(archive, q=QUESTION)
    shown, _, folded = text.partition('class="more-hits')
    assert 'class="item hit"' in shown
    assert "is-less-likely" not in shown
    assert re.search(r"Show \d less likely", folded)


def test_answered_query_shows_hits_with_bands(archive: User) -> None:
    text = page_of(archive, q=QUESTION)
    assert "seems to answer" not in text
    assert '<span class="band is-strong">strong</span>' in text.split('class="item hit"')[1]
    assert "of 100 such results answer" in text


def test_hit_of_uncalibrated_model_shows_no_band(owner: User, settings: Any, tmp_path: Path) -> None:
    settings.EMBEDDING_MODEL_PATH = str(write_tiny_bert(tmp_path / "tiny"))
    EmbeddingSpace.objects.update(is_active=False)  # as before the first conversation
    index_conversation(conversation_id=make_conversation(owner, exchange(*PAIRS)).pk)
    text = page_of(owner, q=QUESTION)
    assert 'class="item hit"' in text
    assert 'class="band' not in text
    spaces._opened.reset()


@pytest.mark.parametrize("path", ["/conversations/search", "/search"])
def test_api_brings_nearest_and_says_that_they_do_not_answer(archive: User, path: str) -> None:
    api = Api(archive)
    found = api.get(path, query=QUESTION).json()
    assert found["answered"] is True
    assert found["results"][0]["relevance"] > 0.5
    nothing = api.get(path, query=NONSENSE).json()
    assert nothing["answered"] is False
    assert nothing["notes"] == [ONLY_NEAREST]
    assert len(nothing["results"]) == len(PAIRS)
    assert max(hit["relevance"] for hit in nothing["results"]) < 0.1


@pytest.mark.parametrize("mode", ["semantic", "full_text"])
def test_hits_of_one_kind_of_evidence_have_no_relevance_and_are_never_strong(archive: User, mode: str) -> None:
    found = Api(archive).get("/search", query=QUESTION, mode=mode).json()
    assert found["answered"] is True
    assert {hit["relevance"] for hit in found["results"]} == {None}
    text = page_of(archive, q=QUESTION, mode=mode)
    assert "is-related" in text
    assert "is-strong" not in text


def test_similarity_is_null_where_no_vectors_were_compared(archive: User) -> None:
    api = Api(archive)
    assert {hit["similarity"] for hit in api.get("/search", query=QUESTION, mode="full_text").json()["results"]} == {
        None
    }
    assert all(hit["similarity"] for hit in api.get("/search", query=QUESTION).json()["results"][:1])
    index_conversation(conversation_id=make_conversation(archive, exchange(*PAIRS), title="Again").pk)
    text = page_of(archive, q=QUESTION, mode="full_text")
    assert "It was found by its words only." in text


def test_steering_is_no_question_at_bar_that_caller_names(archive: User) -> None:
    """Stop words leave the word "same", which one turn contains: that was an answer at any bar."""
    said = ("use the same flour as before", "Done, the same flour.")
    index_conversation(conversation_id=make_conversation(archive, exchange(said)).pk)
    body = {"query": "now do the same for the other one", "min_relevance": 0.9}
    assert Api(archive).send("POST", "/memory/recall", body).json()["answered"] is False


def test_empty_result_counts_as_unanswered(archive: User) -> None:
    found = Api(archive).get("/search", query=NONSENSE, mode="full_text").json()
    assert (found["results"], found["answered"], found["reason"]) == ([], False, "no_match")


def test_threshold_of_zero_silences_nothing(archive: User, settings: Any) -> None:
    settings.SEARCH_MIN_RELEVANCE = settings.RECALL_MIN_RELEVANCE = 0.0
    assert 'class="item hit"' in page_of(archive, q=NONSENSE)
    assert Api(archive).get("/search", query=NONSENSE).json()["answered"] is True
    assert recall(caller=Caller.of(archive), query=RecallQuery(NONSENSE, threshold=0)).messages


def test_matching_quoted_phrase_is_never_silenced(archive: User, settings: Any) -> None:
    settings.SEARCH_MIN_RELEVANCE = 1.0
    assert Api(archive).get("/search", query='"platform four" zebra').json()["answered"] is True
    assert Api(archive).get("/search", query="platform four zebra").json()["answered"] is False


def test_hit_that_holds_every_word_is_never_silenced(archive: User, settings: Any) -> None:
    settings.SEARCH_MIN_RELEVANCE = 1.0
    assert Api(archive).get("/search", query="the rusty gate").json()["answered"] is True


def test_model_without_calibration_silences_nothing(archive: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.ranking.relevance.calibration_of", lambda model, mode: None)
    found = Api(archive).get("/search", query=NONSENSE).json()
    assert found["answered"] is None
    assert {hit["relevance"] for hit in found["results"]} == {None}
    assert found["notes"] == []
    assert 'class="item hit"' in page_of(archive, q=NONSENSE)
    assert recall(caller=Caller.of(archive), query=RecallQuery(NONSENSE, threshold=0)).messages


def test_search_of_documents_alone_silences_nothing(archive: User) -> None:
    indexed(upload(archive, "The greenhouse opens at seven in the morning.", "garden.txt"))
    found = Api(archive).get("/documents/search", query=NONSENSE).json()
    assert found["answered"] is None
    assert [hit["relevance"] for hit in found["results"]] == [None]


def test_search_command_marks_unanswered_results(archive: User) -> None:
    out, said = StringIO(), StringIO()
    arguments = ["conversation_search", "--query", NONSENSE, "--user", archive.username]
    call_command(*arguments, stdout=out, stderr=said)
    assert ONLY_NEAREST in said.getvalue()
    assert "/conversations/" in out.getvalue()
    out = StringIO()
    call_command(*arguments, "--json", stdout=out)
    answer = json.loads(out.getvalue())
    assert answer["answered"] is False
    assert answer["results"][0]["relevance"] < 0.1


@pytest.mark.parametrize("tool", ["ConversationSearch", "search_chat_history"])
def test_search_tools_note_unanswered_results(archive: User, tool: str) -> None:
    answer = run_tool(tool, {"query": NONSENSE}, Caller.of(archive))
    assert answer["note"] == ONLY_NEAREST
    assert answer["results"]
    assert "note" not in run_tool(tool, {"query": QUESTION}, Caller.of(archive))


def test_tool_tells_how_likely_each_turn_answers(archive: User) -> None:
    first = run_tool("ConversationSearch", {"query": QUESTION}, Caller.of(archive))["results"][0]
    assert first["user_question"] == QUESTION
    assert first["relevance"] > 0.5


def test_unanswered_recall_is_empty_with_note(archive: User) -> None:
    answer = run_tool("conversation_recall", {"query": NONSENSE}, Caller.of(archive))
    assert (answer["results"], answer["context"], answer["note"]) == ([], "", NOTHING_BROUGHT.for_tools)
    assert run_tool("conversation_recall", {"query": QUESTION}, Caller.of(archive))["results"]


def test_bar_of_recall_can_be_moved(archive: User) -> None:
    api = Api(archive)
    silent = api.send("POST", "/memory/recall", {"query": NONSENSE, "threshold": 0}).json()
    assert (silent["answered"], silent["results"], silent["notes"]) == (False, [], [NOTHING_BROUGHT.for_tools])
    moved = api.send("POST", "/memory/recall", {"query": NONSENSE, "threshold": 0, "min_relevance": 0}).json()
    assert moved["results"]
    refused = api.send("POST", "/memory/recall", {"query": NONSENSE, "min_relevance": 1.5})
    assert "from 0 to 1" in problem_of(refused, 422)


def test_page_of_recall_offers_nearest(archive: User) -> None:
    client = signed_in(archive)
    text = client.get("/recall", {"query": NONSENSE, "threshold": "0"}).content.decode()
    assert NOTHING_BROUGHT.for_pages in text
    assert 'href="/recall?query=zzqqxx+blorf&amp;threshold=0&amp;min_relevance=0"' in text
    nearest = client.get("/recall", {"query": NONSENSE, "threshold": "0", "min_relevance": "0"}).content.decode()
    assert 'class="group"' in nearest


def test_page_of_recall_shows_passages_as_they_read(archive: User) -> None:
    said = ("which knife for bread crust?", "**Take a serrated knife** with `teeth`, it tears the crust less.")
    index_conversation(conversation_id=make_conversation(archive, exchange(said)).pk)
    client = signed_in(archive)
    text = client.get("/recall", {"query": said[0], "threshold": "0", "min_relevance": "0"}).content.decode()
    pieces, _, sent = text.partition("The text that the agent gets")
    assert "Take a serrated knife with teeth" in pieces
    assert "**Take a serrated knife** with `teeth`" in sent


def test_empty_archive_is_unanswered_for_its_owner_only(archive: User) -> None:
    assert Api(make_user()).get("/search", query=QUESTION).json()["answered"] is False
    assert Api(archive).get("/search", query=QUESTION).json()["answered"] is True


HOUSEHOLD = [
    ("Where did we put the spare key?", "Under the third flower pot by the shed, wrapped in foil."),
    ("How long do I boil the eggs?", "Seven minutes for a soft yolk, then cold water."),
    ("When does the plumber come?", "On Thursday between eight and ten, he rings first."),
    ("Which paint did we choose for the hall?", "The matt one called Oyster, two coats."),
    ("How do I bleed the radiator?", "Open the valve with the square key until water comes."),
    ("What was wrong with the bicycle?", "The rear hub had play, so the cones were tightened."),
    ("Who feeds the cat in August?", "Mrs Lind from the second floor, as last year."),
    ("How did the loan talk end?", "They offered 3.4 percent for ten years, we wait."),
]


def test_in_archive_of_eight_turns_only_turn_that_answers_is_strong(owner: User) -> None:
    index_conversation(conversation_id=make_conversation(owner, exchange(*HOUSEHOLD)).pk)
    answered = [*(question for question, _ in HOUSEHOLD), "spare key", "radiator valve"]
    for text in [*answered, "Which bird sings at night?", "How are tides predicted?", "Why did the build fail?"]:
        hits = search(caller=Caller.of(owner), query=SearchQuery(text=text)).hits
        bands = [band_of(hit, hits[0].score) for hit in hits]
        assert bands[0] == "strong" if text in answered else "strong" not in bands, text
        assert "strong" not in bands[1:], text
