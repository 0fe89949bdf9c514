"""txtai: its hybrid index, Faiss vectors and BM25 added with equal weight. One index per archive."""

from collections.abc import Sequence

from txtai import Embeddings

from benchmarks.peers.adapter import Turn, serve
from benchmarks.peers.minilm import EmbeddingAdapter, Vectors


class Txtai(EmbeddingAdapter):
    """Gets vectors from outside, so that they equal those of the others; the other settings are its defaults."""

    packages = ("txtai", "faiss-cpu", "torch")

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


if __name__ == "__main__":
    serve(Txtai)
