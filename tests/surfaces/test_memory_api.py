"""The routes of memory and of whole turns: shapes, what they refuse, and the caller's own data only."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation, Message
from memory import tasks
from memory.models import MessageEmbedding
from search.adapters.conversations import index_conversation
from search.searching import SearchQuery, search
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import Api, problem_of
from tests.support.queue import queued

pytestmark = pytest.mark.django_db

PAIRS = [
    ("How long do I boil an egg?", "Six minutes is right for a soft egg."),
    ("Which paint holds on a rusty gate?", "Use a metal primer first."),
]
ROUTES = [
    ("GET", "/conversations/{id}/memory/stats", None),
    ("POST", "/conversations/{id}/memory/embed", {"message_ids": [1]}),
    ("POST", "/conversations/{id}/memory/recall", {"query": "boil an egg"}),
    ("POST", "/conversations/{id}/turns", {"turn_number": 0, "user": "a", "assistant": "b"}),
]


def stored(owner: User, more: str = "") -> Conversation:
    """Store a conversation; `more` makes its messages differ, because recall brings equal ones once."""
    pairs = [(f"{asked}{more}", f"{said}{more}") for asked, said in PAIRS]
    conversation = make_conversation(owner, exchange(*pairs), title="Kitchen")
    index_conversation(conversation_id=conversation.pk)
    return conversation


def test_embed_answers_pending_worker_completes_and_stats_count(api: Api, owner: User) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    ids = list(conversation.messages.order_by("position").values_list("pk", flat=True))
    path = f"/conversations/{conversation.pk}/memory"
    answer = api.send("POST", f"{path}/embed", {"message_ids": ids})
    assert answer.status_code == 202, answer.content
    assert [row["message_id"] for row in answer.json()["results"]] == ids
    assert {row["status"] for row in answer.json()["results"]} == {"pending"}
    assert answer.json()["skipped"] == []
    assert api.get(f"{path}/stats").json() == {
        "embedded": 0, "pending": 4, "failed": 0, "tokens": 0
    }  # fmt: skip
    [(_, arguments)] = queued("memory.tasks.embed")
    assert tasks.embed(*arguments, archive_id=conversation.archive_id) == {
        "finished": True,
        "completed": 4,
        "failed": 0,
    }
    stats = api.get(f"{path}/stats").json()
    assert (stats["embedded"], stats["pending"]) == (4, 0)
    assert stats["tokens"] > 20
    again = api.send("POST", f"{path}/embed", {"message_ids": ids}).json()["results"]
    assert {row["status"] for row in again} == {"completed"}


def test_question_without_answer_is_embedded_and_system_message_is_not(api: Api) -> None:
    body = {"messages": [{"role": "user", "content": "Are you there?"}, {"role": "system", "content": "quiet"}]}
    number = api.send("POST", "/conversations", body).json()["id"]
    ids = list(Message.objects.order_by("position").values_list("pk", flat=True))
    answer = api.send("POST", f"/conversations/{number}/memory/embed", {"message_ids": ids}).json()
    (asked,) = answer["results"]
    assert (asked["status"], asked["role"]) == ("pending", "user")
    (skipped,) = answer["skipped"]
    assert (skipped["role"], "system" in skipped["reason"]) == ("system", True)


def test_recall_answers_everywhere_and_in_one_conversation(api: Api, owner: User) -> None:
    first, second = stored(owner), stored(owner, " Really.")
    everywhere = api.send("POST", "/memory/recall", {"query": "boil a soft egg"}).json()
    assert {row["conversation_id"] for row in everywhere["results"]} == {first.pk, second.pk}
    path = f"/conversations/{first.pk}/memory/recall"
    body = {"query": "boil a soft egg", "top_k": 2, "threshold": 0.1, "scope": ["assistant"], "before_position": 3}
    (hit,) = api.send("POST", path, body).json()["results"]
    assert set(hit) == {
        "message_id", "conversation_id", "conversation_title", "turn_number", "position", "role", "speaker",
        "created_at", "similarity", "score", "passages", "mark", "overturned", "space", "url",
    }  # fmt: skip
    assert (hit["conversation_title"], hit["role"], hit["position"]) == ("Kitchen", "assistant", 1)
    assert hit["mark"] is None
    mark = {"kind": "outdated", "note": "eight minutes"}
    api.send("POST", f"/conversations/{first.pk}/turns/0/mark", mark)
    (marked,) = api.send("POST", path, body).json()["results"]
    assert marked["mark"] == mark
    assert hit["url"] == f"/conversations/{first.pk}?turn=0"
    (passage,) = hit["passages"]
    assert passage["text"] == PAIRS[0][1]
    assert (passage["start"], passage["end"], passage["similarity"]) == (0, len(PAIRS[0][1]), hit["similarity"])


def test_recall_omits_messages_in_context_and_filtered_ones(api: Api, owner: User) -> None:
    first, second = stored(owner), stored(owner)
    alive = list(first.messages.values_list("pk", flat=True))
    found = api.send("POST", "/memory/recall", {"query": "boil a soft egg", "alive_message_ids": alive}).json()
    assert {row["conversation_id"] for row in found["results"]} == {second.pk}
    assert f"/conversations/{first.pk}?" not in found["context"]
    body = {"query": "boil a soft egg", "agent": "nobody"}
    assert api.send("POST", "/memory/recall", body).json()["results"] == []


def test_recall_leaves_out_callers_own_session_and_its_subagents(api: Api, owner: User) -> None:
    session, subagent, other = stored(owner), stored(owner, " Really."), stored(owner, " In truth.")
    Conversation.objects.filter(pk=session.pk).update(source="claude-code", source_id="s-1")
    Conversation.objects.filter(pk=subagent.pk).update(source="claude-code", source_id="s-2", parent_source_id="s-1")
    foreign = stored(make_user())
    Conversation.objects.filter(pk=foreign.pk).update(source="claude-code", source_id="s-foreign")

    def found(session_id: str) -> set[int]:
        body = {"query": "boil a soft egg", "threshold": 0, "top_k": 50, "exclude_session": session_id}
        return {row["conversation_id"] for row in api.send("POST", "/memory/recall", body).json()["results"]}

    assert found("s-1") == {other.pk}
    assert found("") == found("s-foreign") == found("s-unknown\x00") == {session.pk, subagent.pk, other.pk}


def test_recall_renders_context_with_absolute_links_within_budget(api: Api, owner: User) -> None:
    conversation = stored(owner)
    api.client.defaults["HTTP_HOST"] = "testserver"
    body = {"query": "boil a soft egg", "threshold": 0, "top_k": 4}
    whole = api.send("POST", "/memory/recall", body).json()
    assert whole["context_tokens"] <= 2000
    assert whole["context"].count(f" http://testserver/conversations/{conversation.pk}?turn=") == 2
    assert whole["left_out"] == []
    small = api.send("POST", "/memory/recall", body | {"max_tokens": whole["context_tokens"] - 5}).json()
    assert len(small["context"]) < len(whole["context"])
    tiny = api.send("POST", "/memory/recall", body | {"max_tokens": 3}).json()
    assert (tiny["context"], tiny["context_tokens"]) == ("", 0)
    assert [row["message_id"] for row in tiny["left_out"]] == [row["message_id"] for row in tiny["results"]]
    alone = api.send("POST", "/memory/recall", body | {"top_k": 1, "partners": False}).json()
    assert len(alone["context"].splitlines()) == 6
    assert "max_tokens" in problem_of(api.send("POST", "/memory/recall", body | {"max_tokens": 0}), 422)


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_foreign_and_unknown_conversations_answer_alike(api: Api, method: str, path: str, body: Any) -> None:
    foreign = stored(make_user())
    before = set(MessageEmbedding.objects.values_list("pk", "status"))
    answers = set()
    for number in (foreign.pk, foreign.pk + 1000, 10**30):
        detail = problem_of(api.send(method, path.format(id=number), body or ""), 404)
        answers.add(detail.replace(str(number), "N"))
    assert len(answers) == 1
    assert set(MessageEmbedding.objects.values_list("pk", "status")) == before
    assert foreign.messages.count() == 4


def test_foreign_messages_cannot_be_embedded_through_own_conversation(api: Api, owner: User) -> None:
    own, foreign = make_conversation(owner, exchange(*PAIRS)), make_conversation(make_user(), exchange(*PAIRS))
    message = foreign.messages.order_by("pk")[0].pk
    path = f"/conversations/{own.pk}/memory/embed"
    details = {
        problem_of(api.send("POST", path, {"message_ids": [number]}), 404).replace(str(number), "N")
        for number in (message, message + 10_000)
    }
    assert len(details) == 1
    assert not MessageEmbedding.objects.exists()


def test_recall_brings_only_callers_messages(api: Api, owner: User) -> None:
    own = stored(owner)
    stored(make_user())
    rows = api.send("POST", "/memory/recall", {"query": "boil an egg", "threshold": 0, "top_k": 50}).json()["results"]
    assert {row["conversation_id"] for row in rows} == {own.pk}


@pytest.mark.parametrize(
    ("path", "body"),
    [("embed", {}), ("embed", {"message_ids": []}), ("embed", {"message_ids": ["x"]}), ("embed", {"message_ids": 5}),
     ("recall", {}), ("recall", {"query": "x" * 10_001}), ("recall", {"query": ""}),
     ("recall", {"query": "egg", "top_k": 0}), ("recall", {"query": "egg", "top_k": 10_000}),
     ("recall", {"query": "egg", "threshold": 7}), ("recall", {"query": "egg", "scope": ["dreams"]}),
     ("recall", {"query": "egg", "before_position": -1})],
)  # fmt: skip
def test_bad_input_is_explained(api: Api, owner: User, path: str, body: Any) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    answer = api.send("POST", f"/conversations/{conversation.pk}/memory/{path}", body)
    assert len(problem_of(answer, 422)) > 10
    assert not MessageEmbedding.objects.exists()


def test_recall_while_memory_is_off_gets_403(api: Api, settings: Any) -> None:
    settings.CONVERSATION_MEMORY_ENABLED = False
    assert "CONVERSATION_MEMORY_ENABLED" in problem_of(api.send("POST", "/memory/recall", {"query": "egg"}), 403)


def put(api: Api, conversation: int, turn: int, user: str, assistant: str) -> Any:
    body = {"turn_number": turn, "user": user, "assistant": assistant}
    return api.send("POST", f"/conversations/{conversation}/turns", body)


def test_same_turn_is_stored_once_and_changed_turn_replaced(api: Api, owner: User) -> None:
    number = make_conversation(owner).pk
    assert put(api, number, 0, "What floats?", "Wood floats.").json() == {
        "conversation_id": number, "turn_number": 0, "outcome": "created", "url": f"/conversations/{number}?turn=0"
    }  # fmt: skip
    assert put(api, number, 1, "What sinks?", "Stones sink.").status_code == 201
    index_conversation(conversation_id=number)
    version = Conversation.objects.get().turns_version
    again = put(api, number, 0, "What floats?", "Wood floats.")
    assert (again.status_code, again.json()["outcome"]) == (200, "unchanged")
    assert Conversation.objects.get().turns_version == version
    assert put(api, number, 0, "What floats?", "Cork floats well on water.").json()["outcome"] == "replaced"
    texts = [m.typed_parts[0].text for m in Message.objects.order_by("position")]  # type: ignore[union-attr]
    assert texts == ["What floats?", "Cork floats well on water.", "What sinks?", "Stones sink."]
    assert list(Message.objects.order_by("position").values_list("turn_number", flat=True)) == [0, 0, 1, 1]
    assert index_conversation(conversation_id=number).items == 1
    hit = search(caller=Caller.of(owner), query=SearchQuery(text="cork on water")).hits[0]
    assert (hit.number, hit.passage) == (0, "Cork floats well on water.")


def test_turn_with_gap_or_over_other_messages_is_refused(api: Api, owner: User) -> None:
    number = make_conversation(owner, exchange(("What floats?", "Wood floats."))).pk
    assert "next turn of conversation" in problem_of(put(api, number, 3, "a", "b"), 422)
    assert "came in another way" in problem_of(put(api, number, 0, "What floats?", "Iron floats."), 422)
    assert put(api, number, 0, "What floats?", "Wood floats.").json()["outcome"] == "unchanged"
    for user, assistant in (("", "b"), ("a", "  ")):
        assert "both texts" in problem_of(put(api, number, 1, user, assistant), 422)
    assert problem_of(put(api, number, -1, "a", "b"), 422)
    assert Message.objects.count() == 2
