"""The OpenAI-compatible embedder against a real HTTP server, mostly one in trouble."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convmemory.core import tokens
from convmemory.core.errors import EmbedderUnavailable, EmbeddingError, SettingError
from convmemory.embeddings import openai_compatible
from convmemory.embeddings.embedder import TextsRefused, embed_each
from convmemory.embeddings.openai_compatible import OpenAIEmbedder
from convmemory.embeddings.options import EmbeddingOptions
from tests.support.openai_server import FakeEndpoint, Fault, running_endpoint, vector_of

Open = Callable[..., OpenAIEmbedder]


@pytest.fixture(autouse=True)
def _no_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_vocabulary", lambda encoding: None)


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with running_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def open_embedder(endpoint: FakeEndpoint) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_with(*, max_retries: int = 2, **changes: Any) -> OpenAIEmbedder:
            options = replace(
                EmbeddingOptions.from_settings(),
                **{
                    "provider": "openai",
                    "model": "some-model",
                    "base_url": endpoint.url,
                    "api_key": endpoint.key,
                    "dimensions": endpoint.native_dimensions,
                    "timeout_s": 60.0,
                    **changes,
                },
            )
            embedder = OpenAIEmbedder(options, max_retries=max_retries)
            stack.callback(embedder.close)
            return embedder

        yield open_with


def direction(text: str, dimensions: int = 8) -> Any:
    vector = vector_of(text, dimensions)
    return vector / np.linalg.norm(vector)


def test_servers_vectors_come_back_at_unit_length(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    vectors = open_embedder().embed_passages(["one", "two", "three"])
    np.testing.assert_allclose(vectors, [direction("one"), direction("two"), direction("three")], atol=1e-6)
    [request] = endpoint.requests
    assert request == {"model": "some-model", "input": ["one", "two", "three"], "encoding_format": "float"}


def test_known_model_needs_no_dimensions_and_sends_base64(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    endpoint.native_dimensions = 1536
    embedder = open_embedder(model="text-embedding-3-small", dimensions=0)
    assert (embedder.card.dimensions, embedder.card.max_tokens) == (1536, 8191)
    np.testing.assert_allclose(embedder.embed_query("hello"), direction("hello", 1536), atol=1e-6)
    assert endpoint.requests[0]["encoding_format"] == "base64"
    assert "dimensions" not in endpoint.requests[0]


def test_known_model_is_asked_for_shorter_vectors(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    endpoint.can_shorten = True
    embedder = open_embedder(model="text-embedding-3-large", dimensions=256)
    assert embedder.embed_query("hello").shape == (256,)
    assert endpoint.requests[0]["dimensions"] == 256


def test_batches_are_limited_by_items(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    texts = [f"text {number}" for number in range(70)]
    vectors = open_embedder().embed_passages(texts)
    assert [len(request["input"]) for request in endpoint.requests] == [32, 32, 6]
    np.testing.assert_allclose(vectors[69], direction("text 69"), atol=1e-6)


def test_batches_are_limited_by_tokens(
    endpoint: FakeEndpoint, open_embedder: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_compatible, "_BATCH_TOKENS", 10)
    open_embedder().embed_passages(["cat " * 4, "cat " * 4, "cat " * 4, "cat " * 50, "cat"])
    assert [len(request["input"]) for request in endpoint.requests] == [2, 1, 1, 1]


@pytest.mark.parametrize("drops_texts", [False, True])
def test_batch_limit_of_server_is_learnt(endpoint: FakeEndpoint, open_embedder: Open, drops_texts: bool) -> None:
    endpoint.max_texts, endpoint.drops_texts = 8, drops_texts
    texts = [f"text {number}" for number in range(70)]
    vectors = open_embedder().embed_passages(texts)
    assert [len(request["input"]) for request in endpoint.requests] == [32, 16, 8, 8, 16, 8, 8, 8, 8, 8, 8, 6]
    np.testing.assert_allclose(vectors, [direction(text) for text in texts], atol=1e-6)


def test_server_without_base64_is_asked_for_floats(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    endpoint.native_dimensions, endpoint.takes_base64 = 1536, False
    embedder = open_embedder(model="text-embedding-3-small", dimensions=0)
    np.testing.assert_allclose(embedder.embed_query("hello"), direction("hello", 1536), atol=1e-6)
    embedder.embed_query("hello")
    assert [request["encoding_format"] for request in endpoint.requests] == ["base64", "float", "float"]


CUT = b'{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2'
CUT_JSON = Fault(body=CUT, headers={"Content-Type": "application/json"})
LOST_CONNECTION = Fault(body=CUT, headers={"Content-Type": "application/json", "Content-Length": "5000"})


@pytest.mark.parametrize("fault", [CUT_JSON, LOST_CONNECTION])
def test_cut_answer_is_retried_and_not_blamed_on_address(
    endpoint: FakeEndpoint, open_embedder: Open, fault: Fault
) -> None:
    answer, faults = endpoint.answer, [fault]
    endpoint.answer = lambda *sent: faults.pop() if faults else answer(*sent)  # type: ignore[method-assign]
    embedder = open_embedder()
    np.testing.assert_allclose(embedder.embed_passages(["hello"])[0], direction("hello"), atol=1e-6)
    faults.extend([fault] * 9)
    with pytest.raises(EmbedderUnavailable, match=r"a part of an answer: try later|cannot be reached"):
        embedder.embed_passages(["hello"])


def test_question_does_not_wait_out_long_retry_after(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    endpoint.faults.append(Fault(status=429, headers={"Retry-After": "60"}, body={"error": {"message": "slow down"}}))
    started = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match="429: too many requests"):
        open_embedder().embed_query("hello")
    assert time.monotonic() - started < 30
    assert len(endpoint.requests) == 1


def test_text_whose_vector_server_cannot_write_is_refused_alone(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    problem = Fault(500, {"error": {"message": "failed to encode response: json: unsupported value: NaN"}})
    answer = endpoint.answer
    endpoint.answer = lambda *sent: problem if "odd" in sent[0]["input"] else answer(*sent)  # type: ignore[method-assign]
    with pytest.raises(TextsRefused) as caught:
        open_embedder(max_retries=0).embed_passages(["one", "odd", "two"])
    assert list(caught.value.errors) == [1]
    np.testing.assert_allclose(caught.value.vectors[2], direction("two"), atol=1e-6)


def test_too_long_text_is_cut_before_it_is_sent(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    open_embedder(max_tokens=5).embed_passages(["one two six ten cat mat"])
    assert endpoint.requests[0]["input"] == ["one two six ten cat"]


def test_waiting_for_as_long_as_server_asks(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    endpoint.faults.append(Fault(status=429, headers={"Retry-After": "1"}, body={"error": {"message": "slow down"}}))
    started = time.monotonic()
    assert open_embedder().embed_query("hello").shape == (8,)
    assert 1.0 <= time.monotonic() - started < 30
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(status=503), Fault(delay_s=60.0)])
def test_transient_fault_is_retried(endpoint: FakeEndpoint, open_embedder: Open, fault: Fault) -> None:
    endpoint.faults.append(fault)
    embedder = open_embedder(max_retries=5, timeout_s=2.0 if fault.delay_s else 60.0)
    np.testing.assert_allclose(embedder.embed_passages(["hello"])[0], direction("hello"), atol=1e-6)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(status=429, body={"error": {"message": "quota"}}), "429: too many requests"),
        (Fault(status=500, body={"error": {"message": "boom"}}), r"500: try later \(“Error code: 500"),
        (Fault(delay_s=60.0), "no answer in time"),
        (Fault(status=403), "403: the key may not use this model"),
        (Fault(status=404), "404: no such model or address"),
        (Fault(status=200, body=b"<html>"), "as an embeddings endpoint does"),
    ],
)
def test_permanent_fault_error_says_what_to_do(
    endpoint: FakeEndpoint, open_embedder: Open, fault: Fault, message: str
) -> None:
    endpoint.faults.extend([fault] * 2)
    if fault.status == 200 and fault.body:
        endpoint.answer = lambda *_: fault  # type: ignore[method-assign]
    with pytest.raises(EmbedderUnavailable, match=message):
        open_embedder(max_retries=1, timeout_s=0.3 if fault.delay_s else 60.0).embed_passages(["hello"])


def test_wrong_key_is_not_tried_again_and_not_shown(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    with pytest.raises(EmbedderUnavailable, match="set EMBEDDING_API_KEY") as caught:
        open_embedder(api_key="wrong-key").embed_passages(["hello"])
    assert len(endpoint.requests) == 1
    assert "wrong-key" not in str(caught.value)


def test_unreachable_endpoint_error_names_embedding_base_url(open_embedder: Open) -> None:
    with pytest.raises(EmbedderUnavailable, match="cannot be reached: check EMBEDDING_BASE_URL"):
        open_embedder(base_url="http://127.0.0.1:9/v1", max_retries=0).embed_passages(["hello"])


def test_another_servers_key_is_never_sent(
    endpoint: FakeEndpoint, open_embedder: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "belongs-to-openai")
    endpoint.key = "none"
    assert open_embedder(api_key="").embed_query("hello").shape == (8,)


def test_openai_itself_needs_key(open_embedder: Open) -> None:
    with pytest.raises(EmbedderUnavailable, match="needs a key: set EMBEDDING_API_KEY"):
        open_embedder(api_key="", base_url="https://api.openai.com/v1").embed_query("hello")


def test_refused_texts_are_named_and_others_embedded(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    endpoint.refused_words = ("poison",)
    texts = [f"text {number}" for number in range(40)]
    texts[7] = "poison"
    texts[35] = "more poison"
    with pytest.raises(TextsRefused) as caught:
        open_embedder().embed_passages(texts)
    assert sorted(caught.value.errors) == [7, 35]
    assert not caught.value.vectors[7].any()
    np.testing.assert_allclose(caught.value.vectors[36], direction("text 36"), atol=1e-6)
    assert "text 7: The embedding endpoint refused the text: " in str(caught.value)


def test_embed_each_returns_vector_or_error_per_text(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    endpoint.refused_words = ("poison",)
    one, two, blank = embed_each(open_embedder(), ["fine", "poison", " \n"])
    assert not isinstance(one, EmbeddingError)
    np.testing.assert_allclose(one, direction("fine"), atol=1e-6)
    assert isinstance(two, EmbeddingError)
    assert "Invalid input" in str(two)
    assert str(blank) == "The text is blank."
    with pytest.raises(EmbeddingError):
        open_embedder().embed_query("poison")


def test_text_refused_for_its_length_is_tried_by_halves(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    endpoint.max_characters = 100
    vectors = open_embedder().embed_passages(["short", "x " * 150])
    np.testing.assert_allclose(vectors[1], direction(("x " * 150)[:75]), atol=1e-6)
    with pytest.raises(TextsRefused):
        open_embedder(max_tokens=5000).embed_passages(["short", "x " * 4000])


def test_endpoint_that_refuses_every_text_raises_unavailable(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    endpoint.takes_nothing = True
    with pytest.raises(EmbedderUnavailable, match="refuses every text"):
        open_embedder().embed_passages([f"text {number}" for number in range(32)])
    assert len(endpoint.requests) <= 7


def test_configured_dimensions_are_requested_from_endpoint(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    endpoint.can_shorten = True
    assert open_embedder(dimensions=4).embed_query("hello").shape == (4,)
    assert [request.get("dimensions") for request in endpoint.requests] == [None, 4]
    endpoint.can_shorten = False
    with pytest.raises(EmbedderUnavailable, match="400"):
        open_embedder(dimensions=4).embed_query("hello")


def test_known_model_that_answers_with_other_dimensions(endpoint: FakeEndpoint, open_embedder: Open) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"set EMBEDDING_DIMENSIONS=8 and run `manage.py reembed`"):
        open_embedder(model="text-embedding-ada-002", dimensions=0).embed_query("hello")


@pytest.mark.parametrize("numbers", [[0.0] * 8, [float("nan")] * 8])
def test_vectors_without_direction_are_refused(
    endpoint: FakeEndpoint, open_embedder: Open, numbers: list[float]
) -> None:
    body = {"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": numbers}]}
    endpoint.answer = lambda *_: Fault(body=body)  # type: ignore[method-assign]
    with pytest.raises(TextsRefused, match="vector of zeros"):
        open_embedder().embed_passages(["hello"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dimensions": 0}, "EMBEDDING_DIMENSIONS must be set: the dimensions of some-model are not known"),
        ({"dimensions": 4001}, "4000 can be indexed at most"),
        ({"model": "text-embedding-ada-002", "dimensions": 512}, "not possible with text-embedding-ada-002"),
        ({"model": "text-embedding-3-small", "dimensions": 3072}, "not possible with text-embedding-3-small"),
    ],
)
def test_impossible_dimensions_are_refused_on_opening(
    open_embedder: Open, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        open_embedder(**changes)


def test_max_tokens_is_limited_by_known_model(open_embedder: Open) -> None:
    assert open_embedder().card.max_tokens == 512
    assert open_embedder(max_tokens=8192).card.max_tokens == 8192
    assert open_embedder(model="text-embedding-3-small", dimensions=0, max_tokens=9999).card.max_tokens == 8191
    assert open_embedder(model="text-embedding-3-small", dimensions=0, max_tokens=1000).card.max_tokens == 1000
