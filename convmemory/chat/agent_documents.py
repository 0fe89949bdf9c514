"""Attaches documents to agents, and finds the documents that a reply may search."""

from collections.abc import Collection

from django.contrib.auth.models import AbstractBaseUser

from convmemory.chat.agents import get_agent
from convmemory.chat.models import AgentDocument
from convmemory.documents.library import attached_ids, get_document, own_documents
from convmemory.documents.models import Document


def documents_of_agent(*, owner: AbstractBaseUser, agent_id: int) -> list[Document]:
    """Return the documents of the caller's agent. Raises: NotFound."""
    get_agent(owner=owner, agent_id=agent_id)
    chosen = AgentDocument.objects.filter(owner_id=owner.pk, agent_id=agent_id)
    return list(Document.objects.filter(owner_id=owner.pk, pk__in=chosen.values("document")).order_by("title", "pk"))


def attach_to_agent(*, owner: AbstractBaseUser, agent_id: int, document_ids: Collection[int]) -> list[Document]:
    """Attach more documents; return all that are attached afterwards. Raises: NotFound."""
    agent = get_agent(owner=owner, agent_id=agent_id)
    documents = own_documents(owner=owner, document_ids=document_ids)
    rows = [AgentDocument(owner_id=owner.pk, agent=agent, document=document) for document in documents]
    AgentDocument.objects.bulk_create(rows, ignore_conflicts=True)
    return documents_of_agent(owner=owner, agent_id=agent_id)


def detach_from_agent(*, owner: AbstractBaseUser, agent_id: int, document_id: int) -> None:
    """Detach a document. Raises: NotFound."""
    get_agent(owner=owner, agent_id=agent_id)
    get_document(owner=owner, document_id=document_id)
    AgentDocument.objects.filter(owner_id=owner.pk, agent_id=agent_id, document_id=document_id).delete()


def documents_seen(*, owner_id: int, conversation_id: int, agent_id: int | None) -> frozenset[int]:
    """Return the documents that a reply may search: those of its conversation, and those of the answering agent."""
    seen = attached_ids(owner_id=owner_id, conversation_id=conversation_id)
    if agent_id is None:
        return seen
    chosen = AgentDocument.objects.filter(owner_id=owner_id, agent_id=agent_id)
    return seen | frozenset(chosen.values_list("document_id", flat=True))
