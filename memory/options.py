"""The settings of recall as frozen values."""

from dataclasses import dataclass

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class RecallOptions(FromSettings):
    """Whether recall is on, and its defaults."""

    conversation_memory_enabled: bool
    max_recall_tokens: int
    recall_top_k: int
    recall_threshold: float
    recall_min_relevance: float
