"""Asking a reranker over real HTTP: both shapes, and every way in which it gives no order."""

import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from convmemory.core.errors import RerankerUnavailable
from search.ranking import reranking
from search.ranking.reranking import RerankOptions, rerank
from tests.support.rerank_server import RerankServer, running_reranker

DOCUMENTS = ["first", "second", "third"]
PATIENCE_S = 10.0  # far more than any time limit here, far less than what a fault would take


@pytest.fixture
def server() -> Iterator[RerankServer]:
    with running_reranker() as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def closed_afterwards() -> Iterator[None]:
    yield
    reranking.close_connections()


@pytest.fixture
def options(server: RerankServer) -> RerankOptions:
    return RerankOptions(server.url, api_key=server.key, model="ranker", shape="cohere", timeout_s=PATIENCE_S, top_k=30)


def refused(options: RerankOptions, documents: list[str] = DOCUMENTS) -> str:
    with pytest.raises(RerankerUnavailable) as caught:
        rerank(options, query="q", documents=documents)
    return str(caught.value)


def test_coheres_shape(server: RerankServer, options: RerankOptions) -> None:
    assert rerank(options, query="which?", documents=DOCUMENTS) == [0, 1, 2]
    assert server.requests == [{"model": "ranker", "query": "which?", "documents": DOCUMENTS, "top_n": 3}]


def test_shape_of_text_embeddings_inference(server: RerankServer, options: RerankOptions) -> None:
    assert rerank(replace(options, shape="tei"), query="which?", documents=DOCUMENTS) == [0, 1, 2]
    assert server.requests == [{"query": "which?", "texts": DOCUMENTS, "truncate": True}]


def test_model_and_key_need_not_be_named(server: RerankServer, options: RerankOptions) -> None:
    assert "401" in refused(replace(options, model="", api_key=""))
    assert "model" not in server.requests[0]


def test_scores_are_in_order_of_texts(server: RerankServer, options: RerankOptions) -> None:
    server.scores = lambda documents: [0.5, 0.9, 0.5]
    assert rerank(options, query="q", documents=DOCUMENTS) == [0.5, 0.9, 0.5]


def test_text_that_no_json_may_hold_is_sent_without_it(server: RerankServer, options: RerankOptions) -> None:
    rerank(options, query="a\ud800\x00b", documents=["\udfff", "é"])
    assert (server.requests[0]["query"], server.requests[0]["documents"]) == ("a\ufffdb", ["\ufffd", "é"])


def results(*rows: Any) -> bytes:
    return json.dumps({"results": list(rows)}).encode()


def row(index: Any, score: Any = 0.5) -> dict[str, Any]:
    return {"index": index, "relevance_score": score}


@pytest.mark.parametrize(
    "body",
    [
        b"<html>hello</html>", b"\xff\xfe", b"null", b"3", b"{}", b'{"results": null}', b'{"results": {}}',
        b"[" * 100_000, b" " * 2_000_000, results(), results(row(0), row(1)), results(row(0), row(1), row(1)),
        results(row(0), row(1), row(3)), results(row(0), row(1), row(-1)), results(row(0), row(1), row(2), row(0)),
        results(row(0), row(1), row("2")), results(row(False), row(1), row(2)), results(row(0), row(1), row(2, None)),
        results(row(0), row(1), row(2, "0.5")), results(row(0), row(1), row(2, float("nan"))),
        results(row(0), row(1), row(2, 10**400)), results(row(0), row(1), row(2, True)), results(0, 1, 2),
        results(row(0), row(1), {"index": 2}),
    ],
)  # fmt: skip
def test_malformed_rerank_answer_is_refused(server: RerankServer, options: RerankOptions, body: bytes) -> None:
    server.body = body
    assert "does not answer with a score for each text" in refused(options)


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(302, "try later"), (400, "RERANK_SHAPE"), (401, "RERANK_API_KEY"), (404, "usually ends in /rerank"),
     (422, "RERANK_SHAPE"), (424, "not a reranker"), (429, "quota"), (500, "try later"), (503, "try later")],
)  # fmt: skip
def test_error_is_named_with_what_to_do(server: RerankServer, options: RerankOptions, status: int, remedy: str) -> None:
    server.status = status
    said = refused(options)
    assert f"answered {status}: " in said
    assert remedy in said
    assert len(server.requests) == 1


def test_wrong_path_error_contains_status(options: RerankOptions) -> None:
    assert "404" in refused(replace(options, url=options.url.replace("/v1/rerank", "/v1")))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/rerank", "ftp://127.0.0.1/rerank", "rerank", "http://[::1", "http://\x00"]
)
def test_unreachable_address_error_names_rerank_url(options: RerankOptions, url: str) -> None:
    assert "RERANK_URL" in refused(replace(options, url=url))


def test_broken_connection_is_reported(server: RerankServer, options: RerankOptions) -> None:
    server.cuts = True
    assert "breaks off" in refused(options)


@pytest.mark.parametrize("slow", [{"delay_s": 60.0}, {"drips": "headers"}, {"drips": "body"}])
def test_whole_call_is_bounded_in_time_however_endpoint_is_slow(
    server: RerankServer, options: RerankOptions, slow: dict[str, Any]
) -> None:
    for name, value in slow.items():
        setattr(server, name, value)
    started = time.monotonic()
    assert "gave no answer in 0.3 s" in refused(replace(options, timeout_s=0.3))
    assert time.monotonic() - started < PATIENCE_S
    server.delay_s, server.drips = 0.0, ""
    assert rerank(options, query="q", documents=DOCUMENTS) == [0, 1, 2]


def test_name_that_is_resolved_slowly_counts_too(options: RerankOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def slow(*args: object, **values: object) -> list[Any]:
        released.wait(60)
        return []

    monkeypatch.setattr("socket.getaddrinfo", slow)
    started = time.monotonic()
    try:
        assert "gave no answer" in refused(replace(options, url="http://reranker.test/rerank", timeout_s=0.2))
        assert time.monotonic() - started < 30
    finally:
        released.set()


@pytest.mark.parametrize("status", [400, 401, 403, 422, 500])
def test_key_and_texts_quoted_by_endpoint_are_not_repeated(
    server: RerankServer, options: RerankOptions, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    server.status = status
    with caplog.at_level(logging.DEBUG):
        said = refused(options, ["my private text"])
    for told in (said, repr(options), caplog.text):
        assert server.key not in told
        assert "my private text" not in told


@pytest.mark.parametrize("key", ["se\ncret", "sécret", "secret\x00"])
def test_key_that_no_header_may_hold_is_not_repeated(options: RerankOptions, key: str) -> None:
    with pytest.raises(RerankerUnavailable) as caught:
        rerank(replace(options, api_key=key), query="q", documents=DOCUMENTS)
    assert key not in str(caught.value)
    assert caught.value.__suppress_context__


def test_rerank_url_is_not_shown(options: RerankOptions) -> None:
    url = "http://me:hidden@127.0.0.1:9/rerank?api-key=hidden"
    said = refused(replace(options, url=url))
    assert "RERANK_URL" in said
    assert "127.0.0.1" not in said
    assert "hidden" not in said


def test_client_with_dead_thread_is_reopened(options: RerankOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    rerank(options, query="q", documents=DOCUMENTS)
    before = reranking._opened[-1]
    monkeypatch.setattr(before._thread, "is_alive", lambda: False)
    assert rerank(options, query="q", documents=DOCUMENTS) == [0, 1, 2]
    assert reranking._opened[-1] is not before
    monkeypatch.undo()
    before.close()
