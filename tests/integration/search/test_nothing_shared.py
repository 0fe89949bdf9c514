"""Rows of one owner reveal nothing to another: the same texts cost the second what they cost the first.

Counted are the texts that the model is asked for, not seconds; what is counted is what takes the time.
"""

from collections.abc import Sequence

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import Membership
from convmemory.accounts.spaces import create_space
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from convmemory.embeddings.local import LocalEmbedder
from convmemory.embeddings.spaces import active_space
from convmemory.embeddings.token_reader import TokenReader, TokenSequence
from convmemory.ops.reembed.targets import estimate
from search.adapters.conversations import index_conversation
from search.models import ItemEmbedding
from search.searching import SearchQuery, search
from tests.factories import add_member, exchange, make_conversation, make_user, source_id
from tests.support.passages import stored_passages
from tests.support.remembering import RememberingEmbedder

pytestmark = pytest.mark.django_db

SECRET = [("Will we buy Contoso in May?", "Yes, for nine millions. Nobody may know it yet.")]
QUESTION = "when do we buy Contoso?"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the local model was asked for, in order."""
    texts: list[str] = []
    original = TokenReader.sequences

    def counted(self: TokenReader, given: Sequence[str], prompt: str) -> list[TokenSequence]:
        texts.extend(given)
        return original(self, given, prompt)

    monkeypatch.setattr(TokenReader, "sequences", counted)
    monkeypatch.setattr(RememberingEmbedder, "_embedded", LocalEmbedder.embed_passages_with_tokens)
    return texts


def store(owner: User, pairs: Sequence[tuple[str, str]] = SECRET) -> Conversation:
    conversation = make_conversation(owner, exchange(*pairs))
    assert index_conversation(conversation_id=conversation.pk).finished
    return conversation


def texts_for(asked: list[str], owner: User) -> list[str]:
    del asked[:]
    store(owner)
    return list(asked)


def test_texts_stored_by_another_owner_are_computed_again(asked: list[str]) -> None:
    ada, bob, fresh = make_user("ada"), make_user("bob"), make_user("fresh")
    first = texts_for(asked, ada)
    second = texts_for(asked, bob)
    assert first == second
    Conversation.objects.all().delete()
    assert texts_for(asked, fresh) == second
    assert len(second) == 2


def test_own_stored_texts_are_not_computed_again(asked: list[str]) -> None:
    ada = make_user("ada")
    store(ada)
    assert texts_for(asked, ada) == []
    assert len(stored_passages()) == 4


def test_query_of_another_owner_is_computed_again(asked: list[str]) -> None:
    ada, bob = make_user("ada"), make_user("bob")
    counts = []
    for caller in (ada, bob, ada, bob):
        del asked[:]
        search(caller=Caller.of(caller), query=SearchQuery(text=QUESTION))
        counts.append(len(asked))
    assert counts == [1, 1, 0, 0]


def test_query_in_space_is_computed_once_for_each_member(asked: list[str]) -> None:
    ada, bob = make_user("ada"), make_user("bob")
    space = create_space(person=ada, name="Deals").pk
    add_member(person=ada, space_id=space, username="bob", role=Membership.Role.READER)
    counts = []
    for caller in (ada, bob):
        del asked[:]
        with acting_for(caller.pk):
            search(caller=Caller.of(caller), query=SearchQuery(text=QUESTION))
        counts.append(len(asked))
    assert counts == [1, 1]


def test_estimate_counts_equal_texts_of_two_owners_twice() -> None:
    both = [store(make_user(name)) for name in ("ada", "bob")]
    one = estimate({source_id(both[0]): 1}, target=None, active=active_space())
    two = estimate({source_id(conversation): 1 for conversation in both}, target=None, active=active_space())
    assert (two.texts, two.tokens) == (2 * one.texts, 2 * one.tokens)


def test_equal_texts_of_two_owners_have_equal_vectors() -> None:
    ada, bob = make_user("ada"), make_user("bob")
    store(ada)
    store(bob)
    assert _vectors(ada) == _vectors(bob)


def _vectors(owner: User) -> list[list[float]]:
    passages = [one.code for one in stored_passages(archive_id=owner.pk)]
    items = ItemEmbedding.objects.filter(archive_id=owner.pk).values_list("embedding", flat=True)
    return [list(vector) for vector in (*passages, *items)]
