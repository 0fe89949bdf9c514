"""Embeddings from any server that implements OpenAI's `POST /embeddings`.

Sends texts in batches limited by items and tokens. The `openai` client retries temporary failures (408, 409, 429, 5xx,
time-outs, lost connections) with back-off and honours Retry-After up to two minutes, for a question up to some
seconds. A text that the server refuses is found by halving its batch, so that the others get their vectors; if it
accepts all texts of both halves, the batch was too large, and later ones are no larger than a half.
"""

import base64
import binascii
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from convmemory.core import tokens
from convmemory.core.endpoints.completions import MESSAGE_CHARS, FailureKind, SettingNames, explain, failure_kind
from convmemory.core.errors import EmbedderMisconfigured, EmbedderUnavailable, ResponseRefused
from convmemory.core.logs import quoted
from convmemory.core.program import COMMAND
from convmemory.core.text import Span, masked, one_line, storable
from convmemory.embeddings.batch_api import BatchApi
from convmemory.embeddings.embedder import TextsRefused, Vector, unit_rows
from convmemory.embeddings.openai_models import KNOWN_MODELS, read_card
from convmemory.embeddings.options import EmbeddingOptions

if TYPE_CHECKING:
    from openai import APIError, OpenAI


MAX_RETRIES = 4
QUERY_RETRIES = 1
UNREADABLE_RETRIES = 1
QUERY_TIMEOUT_S = 15.0  # a person waits for the answer
QUERY_RETRY_AFTER_S = 5.0

# OpenAI accepts 2,048 texts and 300,000 tokens per request; common servers accept 32 texts by default.
_KNOWN_BATCH = 1024
_OTHER_BATCH = 32
_BATCH_TOKENS = 250_000

_REQUEST_PARAMETERS = frozenset({"model", "dimensions", "encoding_format"})
_TOO_LONG = ("too long", "too large")
_NO_NUMBER = ("unsupported value: nan", "unsupported value: +inf", "unsupported value: -inf")
"""Ollama's 500 for a vector that JSON cannot express; the texts sent with it are not to blame."""
_LENGTH_WORDS = ("token", "length", "context", *_TOO_LONG)
_SHORTENINGS = 4  # halvings, down to a sixteenth of the text
_PROBE = "A short sentence."
_NO_KEY = "none"
_SETTINGS = SettingNames.with_prefix("EMBEDDING")


class _Refusal(Exception):
    """The server does not accept this request; repeating it would not help."""


class _Clients(NamedTuple):
    """The clients of one endpoint: a question waits less than passages do, because a person is waiting."""

    for_passages: "OpenAI"
    for_queries: "OpenAI"


class OpenAIEmbedder:
    """A model behind an OpenAI-compatible endpoint. Thread-safe."""

    def __init__(self, options: EmbeddingOptions, *, max_retries: int = MAX_RETRIES) -> None:
        """Read the options without sending anything.

        Raises:
            SettingError: the model's dimensions are not known, or are not possible.
        """
        self._options = options
        self._max_retries = max_retries
        self._known = KNOWN_MODELS.get(options.model)
        self._encoding = tokens.encoding_for(options.model) if self._known else tokens.ESTIMATE
        self._sends_dimensions = self._known is not None and options.dimensions not in (0, self._known.dimensions)
        self._answers = False
        self._most_texts = _KNOWN_BATCH if self._known else _OTHER_BATCH
        # base64 is smaller, but servers other than OpenAI's may not offer it.
        self._format: Literal["base64", "float"] = "base64" if self._known else "float"
        # The clients are opened by the first thread that needs it.
        self._opening = threading.Lock()
        self._opened: _Clients | None = None
        self.card = read_card(options)

    def close(self) -> None:
        """Close the connections; the next text opens them again."""
        for client in self._opened or ():
            client.close()
        self._opened = None

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [tokens.count_tokens(text, encoding=self._encoding) for text in texts]

    def token_spans(self, text: str) -> list[Span]:
        return tokens.token_spans(text, encoding=self._encoding)

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        client = self._clients().for_passages
        results: list[Vector | str] = []
        for batch in self._batches(texts):
            results.extend(self._embed_batch(client, batch))
        return _stack(results, self.card.dimensions)

    def embed_query(self, text: str) -> Vector:
        """Return the vector (dim,) of a question; fails sooner than `embed_passages`, because a person is waiting."""
        [result] = self._embed_batch(self._clients().for_queries, [self._sendable(text)])
        vector: Vector = _stack([result], self.card.dimensions)[0]
        return vector

    def batch_api(self) -> BatchApi:
        """Return the provider's batches for this model. Raises: EmbedderUnavailable without a key."""
        values: dict[str, Any] = {"model": self._options.model}
        if self._sends_dimensions:
            values["dimensions"] = self.card.dimensions
        return BatchApi(
            self._clients().for_passages,
            values=values,
            dimensions=self.card.dimensions,
            sendable=self._sendable,
            where=self._where(),
        )

    def _sendable(self, text: str) -> str:
        return tokens.cut_to_tokens(storable(text), self.card.max_tokens, encoding=self._encoding)

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        batch_tokens = 0
        for text in map(self._sendable, texts):
            count = tokens.count_tokens(text, encoding=self._encoding)
            if batch and (len(batch) >= self._most_texts or batch_tokens + count > _BATCH_TOKENS):
                yield batch
                batch, batch_tokens = [], 0
            batch.append(text)
            batch_tokens += count
        if batch:
            yield batch

    def _embed_batch(self, client: "OpenAI", texts: list[str]) -> list[Vector | str]:
        """Return a vector (dim,) or the reason of the refusal for each text."""
        if len(texts) == 1 and not texts[0].strip():
            return ["The text is blank."]
        try:
            return list(self._request(client, texts))
        except _Refusal as refusal:
            if len(texts) == 1:
                return [self._shorten(client, texts[0], str(refusal))]
            half = len(texts) // 2
            results = self._embed_batch(client, texts[:half]) + self._embed_batch(client, texts[half:])
            if not any(isinstance(result, str) for result in results):
                self._most_texts = max(1, min(self._most_texts, half))
            return results

    def _shorten(self, client: "OpenAI", text: str, reason: str) -> Vector | str:
        """Try the first half of a refused text, repeatedly, if its length may be the cause: token counts can be
        estimates.

        Raises:
            EmbedderUnavailable: the endpoint has accepted no text yet and does not accept a plain sentence either.
        """
        if not self._answers:
            try:
                self._request(client, [_PROBE])
            except _Refusal:
                raise EmbedderUnavailable(f"{self._where()} refuses every text: {quoted(reason)}") from None
        for _ in range(_SHORTENINGS):
            if len(text) < 2 or not any(word in reason.lower() for word in _LENGTH_WORDS):
                break
            text = text[: len(text) // 2]
            try:
                vector: Vector = self._request(client, [text])[0]
                return vector
            except _Refusal as refusal:
                reason = str(refusal)
        return f"The embedding endpoint refused the text: {quoted(reason)}"

    def _request(self, client: "OpenAI", texts: list[str]) -> Vector:
        """Return the vectors (n, dim) as the server sends them."""
        vectors = self._post(client, texts)
        if vectors.shape[1] != self.card.dimensions and not self._known and not self._sends_dimensions:
            self._sends_dimensions = True  # the model may be able to shorten its vectors on request
            vectors = self._post(client, texts)
        if vectors.shape[1] != self.card.dimensions:
            raise EmbedderUnavailable(
                f"{self._where()} gives vectors of {vectors.shape[1]} dimensions, not {self.card.dimensions}: "
                f"set EMBEDDING_DIMENSIONS={vectors.shape[1]} and run `{COMMAND} reembed`."
            )
        self._answers = True
        return vectors

    def _post(self, client: "OpenAI", texts: list[str]) -> Vector:
        for _ in range(1 + UNREADABLE_RETRIES):
            vectors = self._post_once(client, texts)
            if vectors is not None:
                return vectors
        raise EmbedderUnavailable(
            f"{self._where()} answers with something unreadable, or with a part of an answer: try later."
            if self._answers
            else f"{self._where()} does not answer as an embeddings endpoint does: check EMBEDDING_BASE_URL, "
            "which usually ends in /v1."
        )

    def _post_once(self, client: "OpenAI", texts: list[str]) -> Vector | None:
        """Return the vectors (n, dim) of an answer; None if it is unreadable."""
        from openai import APIError, OpenAIError, omit

        try:
            response = client.embeddings.create(
                input=texts,
                model=self._options.model,
                dimensions=self.card.dimensions if self._sends_dimensions else omit,
                encoding_format=self._format,
            )
        except APIError as error:
            if self._format == "base64" and "encoding_format" in f"{error.param} {error.message}":
                self._format = "float"
                return None
            raise self._translated(error) from error
        except OpenAIError as error:
            raise EmbedderUnavailable(explain(error, where=self._where(), names=_SETTINGS)) from error
        except ResponseRefused as error:
            raise EmbedderUnavailable(f"{self._where()} cannot be used: {error}") from error
        except (ValueError, RecursionError):  # the content type says JSON, the body is none
            response = None
        if 0 < _length(response) < len(texts):
            raise _Refusal(f"It gave {_length(response)} vectors for {len(texts)} texts.")
        return _parse(response, len(texts))

    def _translated(self, error: "APIError") -> Exception:
        """Return the exception to raise: about the text, or about the endpoint with its remedy."""
        from openai import APIStatusError

        if isinstance(error, APIStatusError):
            message = one_line(masked(error.message), MESSAGE_CHARS)
            if _is_about_the_text(error.status_code, error.param, message):
                return _Refusal(message)
            if failure_kind(error.status_code) is FailureKind.OURS:
                return EmbedderMisconfigured(explain(error, where=self._where(), names=_SETTINGS))
        return EmbedderUnavailable(explain(error, where=self._where(), names=_SETTINGS))

    def _where(self) -> str:
        # Without its address, which can be internal: people see these messages.
        return f"The embedding endpoint (model {self._options.model})"

    def _clients(self) -> "_Clients":
        if self._opened is None:
            with self._opening:
                if self._opened is None:
                    if not self._options.api_key and "api.openai.com" in self._options.base_url:
                        raise EmbedderUnavailable(
                            f"{self._where()} needs a key: set EMBEDDING_API_KEY or EMBEDDING_API_KEY_FILE."
                        )
                    timeout_s, retries = self._options.timeout_s, self._max_retries
                    self._opened = _Clients(
                        self._open_client(timeout_s, retries),
                        self._open_client(
                            min(QUERY_TIMEOUT_S, timeout_s), min(QUERY_RETRIES, retries), QUERY_RETRY_AFTER_S
                        ),
                    )
        return self._opened

    def _open_client(self, timeout_s: float, retries: int, max_retry_after_s: float | None = None) -> "OpenAI":
        from openai import OpenAI

        from convmemory.core.endpoints.http import EndpointClient

        return OpenAI(
            # Never None, or the client would send the key from OPENAI_API_KEY to any configured server.
            api_key=self._options.api_key or _NO_KEY,
            base_url=self._options.base_url,
            timeout=timeout_s,
            max_retries=retries,
            http_client=EndpointClient(timeout=timeout_s, max_retry_after_s=max_retry_after_s),
        )


def _is_about_the_text(status_code: int, parameter: str | None, message: str) -> bool:
    if status_code == 500:  # llama.cpp's server answers a long text with 500
        return any(words in message.lower() for words in (*_TOO_LONG, *_NO_NUMBER))
    return failure_kind(status_code) is FailureKind.OF_THE_REQUEST and parameter not in _REQUEST_PARAMETERS


def _length(response: Any) -> int:
    """Return the number of vectors in an answer, 0 if it has another form."""
    data = getattr(response, "data", None)
    return len(data) if isinstance(data, list) else 0


def _parse(response: Any, count: int) -> Vector | None:
    """Return vectors (count, dim) in the order of the texts, or None if the answer has another form.

    The client checks no types, and a server may send floats although base64 was requested.
    """
    try:
        rows = sorted(response.data, key=lambda row: row.index)
        if [row.index for row in rows] != list(range(count)):
            return None
        vectors = np.array(
            [
                np.frombuffer(base64.b64decode(row.embedding), dtype="<f4")
                if isinstance(row.embedding, str)
                else row.embedding
                for row in rows
            ],
            dtype=np.float32,
        )
    except (AttributeError, TypeError, ValueError, binascii.Error):
        return None
    return vectors if vectors.ndim == 2 else None


def _stack(results: list[Vector | str], dimensions: int) -> Vector:
    """Return the vectors as (n, dim), unit length.

    Raises:
        TextsRefused: some results are refusals, or vectors of length zero.
    """
    vectors = np.zeros((len(results), dimensions), dtype=np.float32)
    errors: dict[int, str] = {}
    for index, result in enumerate(results):
        if isinstance(result, str):
            errors[index] = result
        elif not np.isfinite(result).all() or not result.any():
            errors[index] = "The embedding endpoint gave a vector of zeros or of numbers that are none."
        else:
            vectors[index] = result
    vectors = unit_rows(vectors)
    if errors:
        raise TextsRefused(errors, vectors)
    return vectors
