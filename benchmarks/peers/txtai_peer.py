"""txtai: its hybrid index, Faiss vectors and BM25 added with equal weight. One index per archive."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from txtai import Embeddings

from benchmarks.peers.adapter import Turn, folder_bytes, serve
from benchmarks.peers.minilm import MiniLM, Vectors


class Txtai:
    """Gets vectors from outside, so that they equal those of the others; the other settings are its defaults."""

    def __init__(self, options: Namespace) -> None:
        self.folder = options.folder
        self.model = MiniLM.of(options)
        self.archives: dict[str, Any] = {}

    def start(self) -> None:
        self.model.encode(["warm up"])

    def index(self, archive: str, turns: Sequence[Turn]) -> None:
        def transform(texts: list[str]) -> Vectors:
            return self.model.encode(texts)

        embeddings = Embeddings(method="external", transform=transform, hybrid=True)
        embeddings.index([(turn_id, text, None) for turn_id, text in turns])
        self.archives[archive] = embeddings

    def finish(self) -> None:
        for name, embeddings in self.archives.items():
            transform = embeddings.config.pop("transform")  # its files cannot store a function
            embeddings.save(str(self.folder / name))
            embeddings.config["transform"] = transform

    def search(self, archive: str, question: str, limit: int) -> list[str]:
        return [turn_id for turn_id, _ in self.archives[archive].search(question, limit)]

    def bytes_on_disk(self) -> int:
        return folder_bytes(self.folder)

    def servers(self) -> list[int]:
        return []


if __name__ == "__main__":
    serve(Txtai, packages=["txtai", "faiss-cpu", "torch"])
