"""The settings of the context pipeline as frozen values."""

from dataclasses import dataclass

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class ContextOptions(FromSettings):
    """When a context is shortened, and by how much."""

    context_threshold: float
    context_sliding_messages: int
    context_tool_output_tokens: int
    context_resurrection_tokens: int
