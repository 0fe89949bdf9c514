"""`manage.py reembed --batch` against a server that speaks the Batch API: once, after a kill, and where it fails."""

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from pytest_django import Settings

from convmemory.core import tokens
from convmemory.embeddings import spaces
from convmemory.embeddings.batch_api import BatchApi
from convmemory.embeddings.models import EmbeddingBatch
from convmemory.ops.reembed import batching
from search.adapters.conversations import index_conversation
from search.models import Item, ItemEmbedding
from tests.factories import exchange, make_conversation, make_user
from tests.support.openai_server import FakeEndpoint, running_endpoint
from tests.support.passages import stored_passages
from tests.support.tiny_bert import write_tiny_bert

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

PAIRS = [(f"the cat {n}?", f"on the mat {n}.") for n in range(4)]


@pytest.fixture
def endpoint(tmp_path: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    monkeypatch.setattr(tokens, "_vocabulary", lambda encoding: None)
    monkeypatch.setattr(batching, "POLL_S", 0.01)
    settings.EMBEDDING_MODEL_PATH = str(write_tiny_bert(tmp_path / "tiny"))
    with running_endpoint(offers_batches=True) as found:
        settings.EMBEDDING_API_KEY, settings.EMBEDDING_BASE_URL = found.key, found.url
        yield found
    spaces._opened.reset()


@pytest.fixture
def owners(endpoint: FakeEndpoint) -> list[User]:
    users = [make_user(), make_user()]
    for user in users:
        index_conversation(conversation_id=make_conversation(user, exchange(*PAIRS)).pk)
    return users


def reembed(endpoint: FakeEndpoint, *arguments: str) -> str:
    told = StringIO()
    call_command(
        "reembed", "--provider", "openai", "--model", "some-model", "--dimensions", str(endpoint.native_dimensions),
        "--base-url", endpoint.url, "--workers", "1", *arguments, stdout=StringIO(), stderr=told,
    )  # fmt: skip
    return told.getvalue()


def texts_sent(endpoint: FakeEndpoint) -> list[str]:
    """As usual, one request at a time; the trial of a model is left out."""
    return [text for body in endpoint.requests for text in body["input"] if "cat" in text or "mat" in text]


@pytest.mark.essential
def test_everything_is_embedded_in_batches_of_each_owner(endpoint: FakeEndpoint, owners: list[User]) -> None:
    endpoint.looks_until_done = 3
    told = reembed(endpoint, "--batch")
    assert texts_sent(endpoint) == []
    assert "not done yet" in told
    space = spaces.active_space()
    assert space.provider == "openai"
    assert ItemEmbedding.objects.filter(space=space).count() == Item.objects.count() == 8
    assert len(stored_passages(is_kept=None, space=space)) == 16
    batches = list(EmbeddingBatch.objects.order_by("pk"))
    assert [(row.archive_id, row.requests, row.vectors, row.status) for row in batches] == [
        (owner.pk, 8, 8, "completed") for owner in owners
    ]
    assert reembed(endpoint, "--batch").count("handed in") == 0


def test_texts_refused_in_batch_are_sent_as_usual(endpoint: FakeEndpoint, owners: list[User]) -> None:
    endpoint.refused_words = ("cat 2",)
    original = FakeEndpoint.look_at_batch

    def look_and_take_the_rest(self: FakeEndpoint, number: str) -> Any:
        answer = original(self, number)
        self.refused_words = () if len(self.files) == 4 else self.refused_words
        return answer

    FakeEndpoint.look_at_batch = look_and_take_the_rest  # type: ignore[method-assign]
    try:
        told = reembed(endpoint, "--batch")
    finally:
        FakeEndpoint.look_at_batch = original  # type: ignore[method-assign]
    assert "1 texts are sent as usual" in told
    assert set(texts_sent(endpoint)) == {"User: the cat 2?"}
    assert ItemEmbedding.objects.filter(space=spaces.active_space()).count() == 8


@pytest.mark.parametrize("killed_in", ["state", "vectors", "submit"])
def test_killed_batch_run_resumes_its_submitted_batches(
    endpoint: FakeEndpoint, owners: list[User], monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    original = getattr(BatchApi, killed_in)

    def killed(self: BatchApi, *arguments: Any, **values: Any) -> Any:
        if killed_in == "submit":  # the provider has it, but the run dies before it can note so
            original(self, *arguments, **values)
        raise KeyboardInterrupt

    monkeypatch.setattr(BatchApi, killed_in, killed)
    with pytest.raises(Exception, match="Stopped"):
        reembed(endpoint, "--batch")
    handed_in = len(endpoint.batches)
    assert handed_in == (1 if killed_in == "submit" else 2)
    monkeypatch.setattr(BatchApi, killed_in, original)
    reembed(endpoint, "--batch")
    assert len(endpoint.batches) == 2
    assert texts_sent(endpoint) == []
    assert ItemEmbedding.objects.filter(space=spaces.active_space()).count() == 8


def test_expired_batch_falls_back_to_usual_requests(endpoint: FakeEndpoint, owners: list[User]) -> None:
    endpoint.looks_until_done = 99
    original = endpoint.begin_batch
    endpoint.begin_batch = lambda body: original(body | {"status": "expired"})  # type: ignore[method-assign]
    told = reembed(endpoint, "--batch")
    assert "0 vectors, 8 texts are sent as usual" in told
    assert set(EmbeddingBatch.objects.values_list("vectors", "status")) == {(0, "expired")}
    assert ItemEmbedding.objects.filter(space=spaces.active_space()).count() == 8


def test_server_without_batch_api_gets_usual_requests(endpoint: FakeEndpoint, owners: list[User]) -> None:
    endpoint.offers_batches = False
    assert "has no Batch API" in reembed(endpoint, "--batch")
    assert ItemEmbedding.objects.filter(space=spaces.active_space()).count() == 8
    assert not EmbeddingBatch.objects.filter(ended_at=None).exclude(remote_id="").exists()


def test_local_model_has_no_batches(endpoint: FakeEndpoint, owners: list[User]) -> None:
    told = StringIO()
    call_command("reembed", "--batch", "--workers", "1", stdout=StringIO(), stderr=told)
    assert "This model runs here" in told.getvalue()
