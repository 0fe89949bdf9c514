"""Summaries through the HTTP API: requesting, polling, regenerating, deleting, and foreign ones not found."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.conversations.models import Conversation
from summaries.models import ConversationSummary
from summaries.tasks import make, sweep
from tests.factories import exchange, make_conversation, make_user
from tests.support import queue
from tests.support.api import Api, problem_of

pytestmark = pytest.mark.django_db

PAIRS = [("Which flour gives a sourdough loaf the most rise?", "A strong bread flour with plenty of protein.")] * 2


@pytest.fixture
def conversation(owner: User) -> Conversation:
    return make_conversation(owner, exchange(*PAIRS))


@pytest.fixture(autouse=True)
def _no_endpoint(settings: Any) -> None:
    settings.CHAT_BASE_URL = settings.CHAT_API_KEY = settings.CHAT_MODEL = ""


def queued() -> list[Any]:
    return [arguments[0] for _, arguments in queue.queued("summaries.tasks.make")]


def test_summary_is_requested_polled_regenerated_and_deleted(api: Api, conversation: Conversation) -> None:
    path = f"/conversations/{conversation.pk}/summaries"
    created = api.send("POST", path, {"from_position": 1})
    assert created.status_code == 201
    summary = created.json()
    assert (summary["status"], summary["from_position"], summary["to_position"]) == ("pending", 1, 3)
    assert queued() == [summary["id"]]
    assert make(summary["id"], archive_id=conversation.archive_id) == {"status": "completed"}
    shown = api.get(f"{path}/{summary['id']}").json()
    assert (shown["status"], shown["method"], shown["error"]) == ("completed", "extractive", "")
    assert "flour" in shown["content"]
    assert [row["id"] for row in api.get(path).json()["results"]] == [summary["id"]]
    again = api.send("POST", f"{path}/{summary['id']}/regenerate", "")
    assert (again.status_code, again.json()["status"]) == (202, "pending")
    assert queued() == [summary["id"]], "asked for twice is asked for once"
    assert api.send("DELETE", f"{path}/{summary['id']}", "").status_code == 204
    assert make(summary["id"], archive_id=conversation.archive_id) == {"status": "nothing to do"}
    assert api.get(path).json() == {"results": []}


def test_both_positions_are_optional_and_so_is_body(api: Api, conversation: Conversation) -> None:
    path = f"/conversations/{conversation.pk}/summaries"
    for body in ("", {}, {"from_position": None}):
        summary = api.send("POST", path, body).json()
        assert (summary["from_position"], summary["to_position"]) == (0, 3)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"from_position": 3, "to_position": 1}, "swap the two"),
        ({"to_position": 4}, "its messages are 0 to 3"),
        ({"from_position": 10**30}, "its messages are 0 to 3"),
        ({"from_position": "first"}, "from_position"),
        ({"method": "magic"}, "method"),
        ({"method": "model"}, "set CHAT_MODEL"),
    ],
)
def test_bad_ranges_are_explained(api: Api, conversation: Conversation, body: dict[str, Any], said: str) -> None:
    assert said in problem_of(api.send("POST", f"/conversations/{conversation.pk}/summaries", body), 422)
    assert not ConversationSummary.objects.exists()
    assert queued() == []


def test_foreign_and_unknown_summaries_answer_alike(api: Api, owner: User, conversation: Conversation) -> None:
    stranger = make_user()
    foreign = make_conversation(stranger, exchange(*PAIRS))
    number = Api(stranger).send("POST", f"/conversations/{foreign.pk}/summaries", {}).json()["id"]
    for path in (f"/conversations/{foreign.pk}/summaries", f"/conversations/{10**20}/summaries"):
        assert api.get(path).status_code == 404
        assert api.send("POST", path, {}).status_code == 404
    answers = set()
    for place, summary in ((foreign.pk, number), (conversation.pk, number), (conversation.pk, 10**20)):
        path = f"/conversations/{place}/summaries/{summary}"
        for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/regenerate")):
            detail = problem_of(api.send(method, path + end, ""), 404)
            answers.add(re.sub(r"\d+", "N", detail))
    assert answers == {"Conversation N has no summary N."}
    assert ConversationSummary.objects.get().archive_id == stranger.pk


def test_list_takes_few_queries(api: Api, conversation: Conversation, django_assert_num_queries: Any) -> None:
    path = f"/conversations/{conversation.pk}/summaries"
    for _ in range(5):
        api.send("POST", path, {})
    with django_assert_num_queries(3):  # key, conversation, summaries
        api.get(path)


def test_sweep_finds_what_was_missed(api: Api, conversation: Conversation) -> None:
    api.send("POST", f"/conversations/{conversation.pk}/summaries", {})
    queue.drop_all()
    assert sweep() == {"enqueued": 1}
    assert queued() == [ConversationSummary.objects.get().pk]
