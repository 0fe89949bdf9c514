"""The embedding settings as one frozen value, so that nothing below reads Django's settings."""

from dataclasses import dataclass, field
from pathlib import Path

from convmemory.core.config import config

LOCAL = "local"
OPENAI = "openai"
PROVIDERS = (LOCAL, OPENAI)


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """The model, its source, and the limits of its use. 0 means "not set" for dimensions, max_tokens and threads.

    `without_prompts` opens a folder's model as releases without prompts did, for the spaces that they built.
    """

    provider: str
    model: str
    model_path: Path | None
    base_url: str
    api_key: str = field(repr=False)
    dimensions: int
    max_tokens: int
    timeout_s: float
    threads: int
    cache_folder: Path
    without_prompts: bool = False

    @classmethod
    def from_settings(cls) -> "EmbeddingOptions":
        """Return the current settings."""
        path: str = config.embedding_model_path
        return cls(
            provider=config.embedding_provider,
            model=config.embedding_model,
            model_path=Path(path).expanduser().resolve() if path else None,
            base_url=config.embedding_base_url,
            api_key=config.embedding_api_key,
            dimensions=config.embedding_dimensions,
            max_tokens=config.embedding_max_tokens,
            timeout_s=config.embedding_timeout_s,
            threads=config.embedding_threads,
            cache_folder=config.var_dir / "models",
        )
