"""The embedding settings as one frozen value, so that nothing below reads Django's settings."""

from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

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
        """Return the current values in `convmemory.settings`."""
        path: str = settings.EMBEDDING_MODEL_PATH
        return cls(
            provider=settings.EMBEDDING_PROVIDER,
            model=settings.EMBEDDING_MODEL,
            model_path=Path(path).expanduser().resolve() if path else None,
            base_url=settings.EMBEDDING_BASE_URL,
            api_key=settings.EMBEDDING_API_KEY,
            dimensions=settings.EMBEDDING_DIMENSIONS,
            max_tokens=settings.EMBEDDING_MAX_TOKENS,
            timeout_s=settings.EMBEDDING_TIMEOUT_S,
            threads=settings.EMBEDDING_THREADS,
            cache_folder=Path(settings.VAR_DIR) / "models",
        )
