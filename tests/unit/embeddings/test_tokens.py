"""Counting tokens with a vocabulary, and without one."""

import json
import logging
import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest
import tiktoken

from convmemory.conversations.samples_loader import SAMPLES
from convmemory.core import tokens
from convmemory.core.tokens import ESTIMATE
from convmemory.embeddings.local import open_local
from convmemory.embeddings.options import EmbeddingOptions


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_vocabularies", {})
    monkeypatch.setattr(tokens, "_download_failed", threading.Event())


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.LogCaptureFixture]:
    monkeypatch.setattr(logging.getLogger("convmemory"), "propagate", True)
    with caplog.at_level(logging.WARNING, logger=tokens.__name__):
        yield caplog


def byte_pairs() -> tiktoken.Encoding:
    """A vocabulary of the 256 bytes and two merges, so that nothing is downloaded."""
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ca": 256, b"cat": 257}
    return tiktoken.Encoding("tiny", pat_str=r"\s|\S+", mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 300})


def test_vocabulary_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def load(name: str) -> tiktoken.Encoding:
        asked.append(name)
        return byte_pairs()

    monkeypatch.setattr(tiktoken, "get_encoding", load)
    assert tokens.count_tokens("cat c", encoding="tiny") == 3
    assert tokens.count_tokens("<|endoftext|>", encoding="tiny") == 13
    assert asked == ["tiny"]


def test_spans_and_cuts_follow_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: byte_pairs())
    text = "cat é cat"
    spans = tokens.token_spans(text, encoding="tiny")
    assert [text[start:end] for start, end in spans if start < end] == ["cat", " ", "é", " ", "cat"]
    assert len(spans) == tokens.count_tokens(text, encoding="tiny") == 6
    assert tokens.cut_to_tokens(text, 5, encoding="tiny") == "cat é "
    assert tokens.cut_to_tokens(text, 6, encoding="tiny") == text
    assert tokens.cut_to_tokens("", 3, encoding="tiny") == ""


def test_failed_vocabulary_download_is_tried_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def fail(name: str) -> tiktoken.Encoding:
        asked.append(name)
        raise ConnectionError("no network")

    monkeypatch.setattr(tiktoken, "get_encoding", fail)
    assert tokens.count_tokens("one two", encoding="cl100k_base") == 2
    assert tokens.count_tokens("one two", encoding="cl100k_base") == 2
    assert tokens.count_tokens("one two", encoding="o200k_base") == 2
    assert asked == ["cl100k_base"]
    assert [record.levelname for record in log.records] == ["WARNING"]
    assert "ConnectionError" in log.text
    assert "TIKTOKEN_CACHE_DIR" in log.text


def test_hanging_vocabulary_download_falls_back_to_estimate(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()

    def hang(name: str) -> tiktoken.Encoding:
        released.wait(60)
        return byte_pairs()

    monkeypatch.setattr(tokens, "DOWNLOAD_TIME_LIMIT_S", 0.05)
    monkeypatch.setattr(tiktoken, "get_encoding", hang)
    assert tokens.count_tokens("a b c", encoding="cl100k_base") == 3  # with the vocabulary there would be five
    released.set()
    assert "no answer within 0.05 s" in log.text


def test_estimate_does_not_load_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: pytest.fail("asked"))
    assert tokens.count_tokens("word", encoding=ESTIMATE) == 2


@pytest.mark.parametrize(
    ("text", "estimate"),
    [
        ("", 0),
        ("the cat sat", 3),
        ("conversation", 4),
        ("2026-11-21", 6),
        ("f(x) = {1: 2};", 11),
        ("a\n\n        b", 4),
        ("你好", 4),
        ("привет", 6),
        ("😀", 3),
        ("\ud800", 1),
    ],
)
def test_estimated_token_counts(text: str, estimate: int) -> None:
    assert tokens.count_tokens(text, encoding=ESTIMATE) == estimate
    spans = tokens.token_spans(text, encoding=ESTIMATE)
    assert len(spans) == estimate
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_likely_count_is_right_in_the_median() -> None:
    embedder = open_local(EmbeddingOptions.from_settings())
    texts = [
        part
        for file in sorted(SAMPLES.iterdir(), key=str)
        if file.name.endswith(".json")
        for message in json.loads(file.read_text(encoding="utf-8"))["messages"]
        if isinstance(part := message["content"], str) and len(part) > 40
    ]
    counts = embedder.count_tokens(texts)
    errors = sorted(
        abs(tokens.likely_tokens(text) / count - 1) for text, count in zip(texts, counts, strict=True) if count
    )
    assert len(errors) > 500
    assert errors[len(errors) // 2] < 0.05


def test_cut_text_has_at_most_tokens_allowed() -> None:
    text = "Conversation 12345 with naïve 你好 words, and more of them.\n" * 20
    for limit in (1, 7, 50, 333):
        cut = tokens.cut_to_tokens(text, limit, encoding=ESTIMATE)
        assert text.startswith(cut)
        assert tokens.count_tokens(cut, encoding=ESTIMATE) <= limit
        assert len(cut) > limit


def test_text_cut_to_likely_tokens_continues_where_it_ends() -> None:
    text = "Conversation 12345 with naïve 你好 words, and more of them.\n" * 20 + "x" * 5_000
    for limit in (1, 7, 50, 333):
        pieces, rest = [], text
        while rest:
            pieces.append(tokens.cut_to_likely_tokens(rest, limit))
            assert tokens.likely_tokens(pieces[-1]) <= max(limit, 2)
            rest = rest[len(pieces[-1]) :]
        assert "".join(pieces) == text


def test_models_encoding_is_known_by_name() -> None:
    assert tokens.encoding_for("text-embedding-3-small") == "cl100k_base"
    assert tokens.encoding_for("gpt-4o-mini") == "o200k_base"
    assert tokens.encoding_for("nomic-embed-text") == ESTIMATE
    assert tokens.encoding_for("my-model", default="o200k_base") == "o200k_base"
