"""A floor under search by words in other languages: our own questions, each asked of conversations in four languages.

The floors lie two questions under what was measured when they were set; the misses are printed.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation
from search.searching import SearchQuery, search
from tests.factories import exchange, make_conversation, make_user

FOLDER = Path(__file__).parent / "languages"
FLOORS = {"arabic": 0.95, "german": 0.925, "japanese": 0.95, "spanish": 0.95}
"""hit@5"""


def lines_of(language: str, name: str) -> list[dict[str, Any]]:
    text = (FOLDER / language / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def load(language: str, owner: Any) -> None:
    for line in lines_of(language, "conversations"):
        said = [message["content"] for message in line["messages"]]
        pairs = list(zip(said[::2], said[1::2], strict=True))
        make_conversation(owner, exchange(*pairs), source_id=line["id"], title=line["title"])


def is_found(owner: Any, question: dict[str, Any], names: dict[int, str]) -> bool:
    query = SearchQuery(text=question["query"], limit=5, mode="full_text")
    found = {(names[hit.object_id], hit.number) for hit in search(caller=Caller.of(owner), query=query).hits}
    return any((question["conversation"], turn) in found for turn in question["turns"])


@pytest.mark.slow
@pytest.mark.django_db
def test_questions_in_other_languages_find_their_turns_by_words() -> None:
    owner = make_user()
    for language in FLOORS:
        load(language, owner)
    names = dict(Conversation.objects.filter(archive_id=owner.pk).values_list("pk", "source_id"))
    figures, misses = {}, []
    for language in FLOORS:
        questions = lines_of(language, "questions")
        assert len(questions) == 40
        missed = [question["query"] for question in questions if not is_found(owner, question, names)]
        figures[language] = 1 - len(missed) / len(questions)
        misses += missed
    assert all(figures[language] >= floor for language, floor in FLOORS.items()), f"{figures}: {misses}"
