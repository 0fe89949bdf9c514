"""Chroma: a persistent client in the same process, cosine over its HNSW index. One collection per archive."""

from collections.abc import Sequence

import chromadb
from chromadb.config import Settings

from benchmarks.peers.adapter import Turn, serve
from benchmarks.peers.minilm import EmbeddingAdapter

TURNS_AT_ONCE = 1_000


class Chroma(EmbeddingAdapter):
    """Stores the texts with their vectors, as is usual with it."""

    packages = ("chromadb",)

    def start(self) -> None:
        super().start()
        self.client = chromadb.PersistentClient(str(self.folder), Settings(anonymized_telemetry=False))

    def index(self, archive: str, turns: Sequence[Turn]) -> None:
        settings = {"hnsw": {"space": "cosine"}}
        collection = self.client.create_collection(archive, configuration=settings, embedding_function=None)
        ids, texts = [turn_id for turn_id, _ in turns], [text for _, text in turns]
        vectors = self.model.encode(texts)
        for start in range(0, len(turns), TURNS_AT_ONCE):
            batch = slice(start, start + TURNS_AT_ONCE)
            collection.add(ids=ids[batch], documents=texts[batch], embeddings=vectors[batch])
        self.archives[archive] = collection

    def search(self, archive: str, question: str, limit: int) -> list[str]:
        vectors = self.model.encode([question])
        ids: list[str] = self.archives[archive].query(query_embeddings=vectors, n_results=limit, include=[])["ids"][0]
        return ids


if __name__ == "__main__":
    serve(Chroma)
