"""Chroma: a persistent client in the same process, cosine over its HNSW index. One collection per archive."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import chromadb
from chromadb.config import Settings

from benchmarks.peers.adapter import Turn, folder_bytes, in_batches, serve
from benchmarks.peers.minilm import MiniLM

BATCH = 1_000


class Chroma:
    """Stores the texts with their vectors, as is usual with it."""

    def __init__(self, options: Namespace) -> None:
        self.folder = options.folder
        self.model = MiniLM.of(options)
        self.archives: dict[str, Any] = {}

    def start(self) -> None:
        self.client = chromadb.PersistentClient(str(self.folder), Settings(anonymized_telemetry=False))
        self.model.encode(["warm up"])

    def index(self, archive: str, turns: Sequence[Turn]) -> None:
        settings = {"hnsw": {"space": "cosine"}}
        collection = self.client.create_collection(archive, configuration=settings, embedding_function=None)
        vectors = self.model.encode([text for _, text in turns])
        for rows in in_batches(range(len(turns)), BATCH):
            batch = [turns[row] for row in rows]
            collection.add(
                ids=[turn_id for turn_id, _ in batch],
                documents=[text for _, text in batch],
                embeddings=vectors[list(rows)],
            )
        self.archives[archive] = collection

    def finish(self) -> None:
        """Do nothing: rows are written when they are added."""

    def search(self, archive: str, question: str, limit: int) -> list[str]:
        vectors = self.model.encode([question])
        found: list[str] = self.archives[archive].query(query_embeddings=vectors, n_results=limit, include=[])["ids"][0]
        return found

    def bytes_on_disk(self) -> int:
        return folder_bytes(self.folder)

    def servers(self) -> list[int]:
        return []


if __name__ == "__main__":
    serve(Chroma, packages=["chromadb"])
