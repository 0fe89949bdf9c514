"""bm25s: BM25 over English stems, without a vector. One index per archive, in memory and in files."""

from argparse import Namespace
from collections.abc import Sequence

import bm25s
import Stemmer

from benchmarks.peers.adapter import Adapter, Turn, serve


class Bm25s(Adapter):
    """The set-up of its README: stop words left out, words stemmed, k1 1.5 and b .75."""

    packages = ("bm25s", "PyStemmer")

    def __init__(self, options: Namespace) -> None:
        super().__init__(options)
        self.stemmer = Stemmer.Stemmer("english")

    def start(self) -> None:
        self._tokens(["warm up"])

    def index(self, archive: str, turns: Sequence[Turn]) -> None:
        retriever = bm25s.BM25()
        retriever.index(self._tokens([text for _, text in turns]), show_progress=False)
        retriever.save(self.folder / archive)
        self.archives[archive] = (retriever, [turn_id for turn_id, _ in turns])

    def search(self, archive: str, question: str, limit: int) -> list[str]:
        retriever, ids = self.archives[archive]
        count = min(limit, len(ids))
        places, scores = retriever.retrieve(self._tokens([question]), k=count, show_progress=False)
        return [ids[index] for index, score in zip(places[0], scores[0], strict=True) if score > 0]

    def _tokens(self, texts: list[str]) -> bm25s.tokenization.Tokenized:
        return bm25s.tokenize(texts, stopwords="en", stemmer=self.stemmer, show_progress=False)


if __name__ == "__main__":
    serve(Bm25s)
