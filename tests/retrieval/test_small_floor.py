"""A floor under ranking, silence and cited answers that takes seconds: 132 questions over 69 short conversations.

`test_floor.py` asks over the 30 long samples, which take a minute to embed. The floors lie two questions under what was
measured when they were set; the misses are printed.

Answers come from a scripted model, a careless one: where a right turn is among its evidence it copies words of it, and
adds sentences without citation, with invented words, and with a wrong number; where there is none it invents an answer.
That measures the evidence and the check of citations, not how well a model reads.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker, Settings

from benchmarks.datasets.haystacks import Question
from benchmarks.datasets.samples import MORE, read
from benchmarks.running import load_haystack, query_of
from convmemory.accounts.callers import Caller
from convmemory.chat.asking import AskJob, prepare_answer, write_answer
from convmemory.chat.checked_answers import MAX_SENTENCES
from convmemory.chat.deltas import ReplyEvent
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from convmemory.push import hook
from memory.recall import RecallQuery, recall
from search.searching import SearchQuery, search
from tests.factories import make_user
from tests.retrieval.test_floor import unanswered_queries
from tests.support.chat_server import Script, running_chat_server, says
from tests.support.run_database import empty_tables

FOLDER = Path(__file__).parent
FLOORS = {"asked_back": (16, 52), "asked_in_time": (55, 68)}
"""The number of the 60 and 72 questions whose right turn is the first, and one of the first five, by folder."""
WRONGLY_SILENCED, LET_THROUGH = 2, 5  # of 60 questions with an answer, of 50 without; `test_floor.py` asks all 100
RECALLED_BY_HOOK, FALSE_FIRES = 38, 2  # of these 60, of 50 prompts without an answer
ANSWERED, CITED_RIGHT, UNANSWERABLE = 52, 0.95, 20  # of these 60; of all citations; questions that get no sentence

pytestmark = pytest.mark.django_db

_TURN = re.compile(r"/conversations/(\d+)\?turn=(\d+)")


class SmallArchive:
    """The short conversations of a folder without the samples, indexed for a user, and the questions about them."""

    def __init__(self, folder: Path) -> None:
        [haystack] = read(folder)
        count = len((folder / MORE).read_text(encoding="utf-8").splitlines())
        self.questions = haystack.questions
        self.caller = Caller.of(make_user(folder.name))
        load_haystack(self.caller, replace(haystack, drafts=lambda: islice(haystack.drafts(), count)))
        own = Conversation.objects.filter(archive_id=self.caller.archive_id)
        self.source_ids = dict(own.values_list("pk", "source_id"))

    def rank(self, question: Question) -> int:
        """Return the rank of the first right turn, 0 if none of the first five is right."""
        with acting_for(self.caller.archive_id):
            hits = search(caller=self.caller, query=query_of(question, "hybrid", limit=5)).hits
        turns = [(self.source_ids[hit.object_id], hit.number) for hit in hits]
        return next((rank for rank, turn in enumerate(turns, 1) if turn in question.turns), 0)

    def recalls(self, question: Question) -> bool:
        """Return whether the hook's recall brings a message of a right conversation."""
        messages = self.fired(question.text)
        return bool({self.source_ids[one] for one in messages} & {source_id for source_id, _ in question.turns})

    def fired(self, text: str) -> list[int]:
        """Return the conversations of what the hook adds to a prompt."""
        query = RecallQuery(text, min_relevance=hook.MIN_RELEVANCE, top_k=hook.TOP_K)
        with acting_for(self.caller.archive_id):
            return [one.conversation_id for one in recall(caller=self.caller, query=query).messages]

    def is_silent(self, text: str) -> bool:
        with acting_for(self.caller.archive_id):
            return search(caller=self.caller, query=SearchQuery(text=text, limit=1)).answered is False


@pytest.fixture(scope="module")
def archives(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, SmallArchive]]:
    with django_db_blocker.unblock():
        yield {name: SmallArchive(FOLDER / name) for name in FLOORS}
        empty_tables()


@pytest.mark.parametrize("name", FLOORS)
def test_questions_find_their_turns(archives: dict[str, SmallArchive], name: str) -> None:
    archive = archives[name]
    ranks = {question.text: archive.rank(question) for question in archive.questions}
    first, of_five = FLOORS[name]
    misses = {text: rank for text, rank in ranks.items() if rank != 1}
    assert sum(rank == 1 for rank in ranks.values()) >= first, misses
    assert sum(rank > 0 for rank in ranks.values()) >= of_five, misses


def test_queries_without_answer_are_silenced_and_others_are_not(
    archives: dict[str, SmallArchive], settings: Settings
) -> None:
    settings.SEARCH_MIN_RELEVANCE = 0.37
    archive = archives["asked_back"]
    wrongly = [question.text for question in archive.questions if archive.is_silent(question.text)]
    let_through = [text for text in unanswered_queries()[::2] if not archive.is_silent(text)]
    assert len(wrongly) <= WRONGLY_SILENCED, wrongly
    assert len(let_through) <= LET_THROUGH, let_through


def test_hook_recalls_what_prompt_asks_about_and_nothing_else(archives: dict[str, SmallArchive]) -> None:
    archive = archives["asked_back"]
    prompts = (FOLDER / "no_memory.txt").read_text(encoding="utf-8").splitlines()
    fired = [text for text in prompts if (query := hook.query_of(text)) and archive.fired(query)]
    recalled = [question for question in archive.questions if archive.recalls(question)]
    assert len(fired) <= FALSE_FIRES, fired
    assert len(recalled) >= RECALLED_BY_HOOK


def unanswerable_questions() -> list[str]:
    """Return questions of which nothing short is about, each phrased as a question."""
    lines = (FOLDER / "no_answer.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [f"{row['query']}?" for row in rows if row["kind"] in ("near miss", "other topic")][::3][:UNANSWERABLE]


class CarelessModel:
    """Answers requests about `questions`, whose right turns it knows, as described above."""

    def __init__(self) -> None:
        self.right: dict[str, list[tuple[int, str]]] = {}

    def __call__(self, body: dict[str, Any]) -> Script:
        evidence, _, question = body["messages"][1]["content"].rpartition("Question: ")
        numbers = sorted(map(int, re.findall(r"^\[(\d+)\] ", evidence, re.MULTILINE)))
        invented = 'It was settled on a Tuesday. [1 "settled on a Tuesday in Vienna"]\nThat is well known.\n'
        right = self.right.get(question, [])
        if not right:
            return says(invented)
        number, words = right[0]
        wrong = next((other for other in numbers if other != number), 99)
        return says(f'Here it is. [{number} "{words}"]\n', invented, f'And there, too. [{wrong} "{words}"]\n')


def prepared(archive: SmallArchive, text: str) -> AskJob:
    with acting_for(archive.caller.archive_id):
        job = prepare_answer(caller=archive.caller, query=SearchQuery(text=text, has_operators=True))
    return job if job.agent is None else replace(job, agent=replace(job.agent, is_metered=False))


def right_turns(job: AskJob, archive: SmallArchive, question: Question) -> list[tuple[int, str]]:
    """Return the numbers of the right turns among the evidence, with words of each that the model is given."""
    found = []
    for one in job.evidence:
        if (archive.source_ids[one.hit.object_id], one.hit.number) in question.turns:
            longest = max(one.text.splitlines(), key=len)
            found.append((one.number, longest.partition(": ")[2][:120].rpartition(" ")[0]))
    return found


async def events_of(jobs: dict[str, AskJob]) -> dict[str, list[ReplyEvent]]:
    events: dict[str, list[ReplyEvent]] = {text: [] for text in jobs}
    for text, job in jobs.items():
        await write_answer(job, events[text].append)
    return events


def test_answers_cite_right_turns_and_unanswerable_questions_get_none(
    archives: dict[str, SmallArchive], settings: Settings
) -> None:
    settings.SEARCH_MIN_RELEVANCE = 0.37
    archive, model = archives["asked_back"], CarelessModel()
    asked = {f"{question.text}?": question for question in archive.questions}
    unanswerable = unanswerable_questions()
    assert (len(asked), len(unanswerable)) == (60, UNANSWERABLE)
    with running_chat_server(otherwise=model) as endpoint:
        settings.CHAT_BASE_URL, settings.CHAT_API_KEY, settings.CHAT_MODEL = endpoint.url, endpoint.key, "test-model"
        jobs = {text: prepared(archive, text) for text in (*asked, *unanswerable)}
        model.right = {text: right_turns(jobs[text], archive, question) for text, question in asked.items()}
        events = asyncio.run(events_of(jobs))
    cited, right, answered = 0, 0, set()
    for text, question in asked.items():
        sentences = [event.data for event in events[text] if event.name == "sentence"]
        assert len(sentences) <= MAX_SENTENCES
        for citation in (one for sentence in sentences for one in sentence["citations"]):
            conversation, turn = map(int, _TURN.match(citation["url"]).groups())  # type: ignore[union-attr]
            is_right = (archive.source_ids[conversation], turn) in question.turns
            cited, right = cited + 1, right + is_right
            answered |= {text} if is_right else set()
    spoke = [text for text in unanswerable if any(event.name == "sentence" for event in events[text])]
    assert right >= CITED_RIGHT * cited, (right, cited)
    assert len(answered) >= ANSWERED, sorted(asked.keys() - answered)
    assert not spoke, spoke
