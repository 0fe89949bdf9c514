"""The systems that the scoreboard compares, and how each is run."""

from dataclasses import dataclass
from pathlib import Path

PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True, slots=True)
class System:
    """One system.

    `adapter` is a module of `benchmarks.peers`; `requirements` a file there, "" for systems that run in our
    environment.
    """

    name: str
    title: str
    adapter: str
    requirements: str = ""
    variant: str = ""

    @property
    def key(self) -> str:
        """Return the inputs of its results other than the set and the commit."""
        pinned = self.requirements_file.read_text(encoding="utf-8") if self.requirements else ""
        return f"{self.adapter} {self.variant} {pinned}"

    @property
    def requirements_file(self) -> Path:
        return PEERS / "requirements" / f"{self.requirements}.txt"


OURS = "convmemory"

SYSTEMS = (
    System(OURS, "convmemory", "convmemory_peer"),
    System("txtai", "txtai (hybrid)", "txtai_peer", "txtai"),
    System("bm25s", "bm25s", "bm25s_peer", "bm25s"),
    System("chroma", "Chroma", "chroma_peer", "chroma"),
    System("pgvector", "pgvector (HNSW)", "pgvector_peer", "postgres"),
    System("pgvector-hybrid", "pgvector (HNSW and full text)", "pgvector_peer", "postgres", "hybrid"),
    System("papers", "the papers' design (IVFFlat)", "papers_peer", "postgres"),
    System("papers-exact", "the papers' design (exact scan)", "papers_peer", "postgres", "exact"),
)
