"""The tool `document_search`: through the index, by words where it must, and in a conversation what is attached."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.chat import agents
from convmemory.chat.agents import create_agent
from convmemory.core.errors import NotFound
from convmemory.documents import library
from convmemory.documents.models import Document
from convmemory.tools.registry import Seen, run_tool
from tests.factories import exchange, make_conversation, make_user
from tests.support.documents import GUIDE, indexed, upload

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents_here")]


@pytest.fixture
def owner() -> User:
    return make_user("ada")


@pytest.fixture
def guide(owner: User) -> Document:
    return indexed(upload(owner, GUIDE))


def ask(owner: User | None, documents: frozenset[int] | None = None, **arguments: Any) -> dict[str, Any]:
    return run_tool(
        "document_search",
        {"query": "how much sun do tomatoes need?", **arguments},
        Caller.of(owner) if owner else None,
        seen=Seen(documents=documents),
    )


def test_document_search_returns_passages_with_citations(owner: User, guide: Document) -> None:
    [found] = ask(owner)["results"]
    start = GUIDE.index(found["passage"])
    end = start + len(found["passage"])
    assert found["similarity"] > 0
    assert found["cite"] == f"[1](/documents/{guide.pk}?section=0&from={start}&to={end}#section-0)"


def test_document_search_uses_words_while_rag_is_off_or_not_embedded(owner: User, settings: Settings) -> None:
    settings.RAG_ENABLED = False
    indexed(upload(owner, GUIDE))
    off = ask(owner)
    settings.RAG_ENABLED = True
    early = ask(owner)
    assert len(off["results"]) == len(early["results"]) == 1
    assert "RAG_ENABLED is off" in off["note"]
    assert early["note"] == "Searched by words only: no document is indexed by meaning yet."


def test_document_search_is_limited_to_given_or_attached_documents(owner: User, guide: Document) -> None:
    other = indexed(upload(owner, "Tomatoes are red in the sun.", "other.txt"))
    assert {row["document_id"] for row in ask(owner)["results"]} == {guide.pk, other.pk}
    assert {row["document_id"] for row in ask(owner, document_id=other.pk)["results"]} == {other.pk}
    assert {row["document_id"] for row in ask(owner, frozenset({guide.pk}))["results"]} == {guide.pk}
    assert ask(owner, frozenset({guide.pk}), document_id=other.pk)["results"] == []
    nothing = ask(owner, frozenset())
    assert nothing["results"] == []
    assert "No document is attached" in nothing["note"]


def test_reply_sees_what_is_attached_to_its_conversation_and_agent(owner: User, guide: Document) -> None:
    other = indexed(upload(owner, "Tomatoes are red in the sun.", "other.txt"))
    chat = make_conversation(owner, exchange(("hello", "Hi.")))
    agent = create_agent(caller=Caller.of(owner), values={"name": "Gardener"})
    seen = {"archive_id": owner.pk, "conversation_id": chat.pk}
    assert agents.documents_seen(**seen, agent_id=agent.pk) == frozenset()
    library.attach(caller=Caller.of(owner), conversation_id=chat.pk, document_ids=[guide.pk])
    agents.attach_to_agent(caller=Caller.of(owner), agent_id=agent.pk, document_ids=[other.pk])
    assert agents.documents_seen(**seen, agent_id=agent.pk) == {guide.pk, other.pk}
    assert agents.documents_seen(**seen, agent_id=None) == {guide.pk}
    agents.detach_from_agent(caller=Caller.of(owner), agent_id=agent.pk, document_id=other.pk)
    assert agents.documents_of_agent(caller=Caller.of(owner), agent_id=agent.pk) == []


def test_foreign_documents_are_not_found(owner: User, guide: Document) -> None:
    stranger = make_user()
    assert ask(stranger)["results"] == []
    assert ask(stranger, frozenset({guide.pk}))["results"] == []
    assert ask(None)["results"] == []
    with pytest.raises(NotFound):
        ask(stranger, document_id=guide.pk)
    agent = create_agent(caller=Caller.of(stranger), values={"name": "Mine"})
    with pytest.raises(NotFound):
        agents.attach_to_agent(caller=Caller.of(stranger), agent_id=agent.pk, document_ids=[guide.pk])


def test_recall_draws_from_documents_where_asked(owner: User, guide: Document) -> None:
    arguments = {"query": "how much sun do tomatoes need?"}
    assert "six hours" not in run_tool("conversation_recall", arguments, Caller.of(owner))["context"]
    recalled = run_tool("conversation_recall", {**arguments, "documents": True}, Caller.of(owner))
    assert "six hours" in recalled["context"]
    assert f"(/documents/{guide.pk}?section=0" in recalled["sections"][0]
    hidden = run_tool(
        "conversation_recall", {**arguments, "documents": True}, Caller.of(owner), seen=Seen(documents=frozenset())
    )
    assert "six hours" not in hidden["context"]
