"""Embeddings by OpenAI's Batch API: a file of texts is submitted, and its vectors are fetched when they are done.

Half the price, within a day. Not every server with `POST /embeddings` offers it. Source:
https://platform.openai.com/docs/guides/batch
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from convmemory.core.endpoints.completions import SettingNames, explain
from convmemory.core.endpoints.streams import LineReader
from convmemory.core.errors import ConvMemoryError, EmbedderUnavailable, ResponseRefused
from convmemory.embeddings.embedder import Vector, unit_rows

if TYPE_CHECKING:
    from openai import OpenAI, OpenAIError

MAX_REQUESTS = 50_000  # per batch, the API's limit
MAX_BYTES = 100 * 1024**2  # the API allows 200 MB
ENDPOINT: Literal["/v1/embeddings"] = "/v1/embeddings"
MARK = "convmemory"  # the metadata field with the row that a batch belongs to
LISTED = 100  # the newest batches among which a lost id is found
MAX_LINE_BYTES = 1024**2  # a vector of 4,000 numbers takes a tenth of it

_OVER = frozenset({"completed", "failed", "expired", "cancelled"})
_NOT_OFFERED = frozenset({404, 405, 501})


class BatchesNotOffered(ConvMemoryError):
    """The endpoint has no Batch API."""


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """A batch as the server describes it. If it `is_over` without an `output_file`, it failed."""

    remote_id: str
    is_over: bool
    status: str
    output_file: str


class BatchApi:
    """The batches of one model. Every method raises BatchesNotOffered, and EmbedderUnavailable with its remedy."""

    def __init__(
        self,
        client: "OpenAI",
        *,
        values: Mapping[str, Any],
        dimensions: int,
        sendable: Callable[[str], str],
        where: str,
    ) -> None:
        """Bind the client to a model; `values` are sent with every text: the model, and dimensions if they are
        requested.
        """
        self._client = client
        self._values = values
        self._dimensions = dimensions
        self._sendable = sendable
        self._where = where

    def submit(self, texts: Mapping[str, str], *, mark: str) -> str:
        """Submit texts by their names; returns the batch's id."""
        lines: list[str] = []
        for name, text in texts.items():
            body = {"input": self._sendable(text), "encoding_format": "float", **self._values}
            lines.append(json.dumps({"custom_id": name, "method": "POST", "url": ENDPOINT, "body": body}))
        with self._explained():
            file = self._client.files.create(file=("embeddings.jsonl", "\n".join(lines).encode()), purpose="batch")
            batch = self._client.batches.create(
                input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h", metadata={MARK: mark}
            )
        return batch.id

    def find(self, mark: str) -> str:
        """Return the id of the batch submitted with this mark, among the newest; "" if there is none."""
        with self._explained():
            batches = self._client.batches.list(limit=LISTED).data
        return next((batch.id for batch in batches if (batch.metadata or {}).get(MARK) == mark), "")

    def state(self, remote_id: str) -> RemoteBatch:
        """Return the state of a batch; one that the server no longer knows is over."""
        try:
            with self._explained():
                batch = self._client.batches.retrieve(remote_id)
        except BatchesNotOffered:
            return RemoteBatch(remote_id, is_over=True, status="unknown to the server", output_file="")
        return RemoteBatch(batch.id, batch.status in _OVER, batch.status, batch.output_file_id or "")

    def vectors(self, batch: RemoteBatch) -> Iterator[tuple[str, Vector]]:
        """Yield names of texts with their vectors of unit length; texts that failed are left out."""
        if not batch.output_file:
            return
        # Up to a gigabyte, so it is read line by line.
        download = self._client.files.with_streaming_response.content
        with self._explained(), download(batch.output_file) as content:
            lines = LineReader(max_bytes=MAX_LINE_BYTES)
            for piece in content.iter_bytes():
                yield from self._results(lines.feed(piece))
            yield from self._results([lines.rest()])

    def _results(self, lines: Iterable[bytes]) -> Iterator[tuple[str, Vector]]:
        for line in lines:
            if (result := self._read(line)) is not None:
                yield result

    def _read(self, line: bytes) -> tuple[str, Vector] | None:
        """Return the name and the vector in a line of the output file; None if it contains no vector of this model."""
        try:
            value = json.loads(line)
            vector = np.asarray(value["response"]["body"]["data"][0]["embedding"], dtype=np.float32)
            name = str(value["custom_id"])
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            return None
        if vector.shape != (self._dimensions,) or not np.isfinite(vector).all() or not vector.any():
            return None
        unit: Vector = unit_rows(vector[np.newaxis])[0]
        return name, unit

    @contextmanager
    def _explained(self) -> Iterator[None]:
        from openai import APIStatusError, OpenAIError

        try:
            yield
        except APIStatusError as error:
            if error.status_code in _NOT_OFFERED:
                raise BatchesNotOffered(f"{self._where} has no Batch API.") from error
            raise self._unavailable(error) from error
        except OpenAIError as error:
            raise self._unavailable(error) from error
        except ResponseRefused as error:
            raise EmbedderUnavailable(f"{self._where} cannot be used: {error}") from error

    def _unavailable(self, error: "OpenAIError") -> EmbedderUnavailable:
        return EmbedderUnavailable(explain(error, where=self._where, names=SettingNames.with_prefix("EMBEDDING")))
