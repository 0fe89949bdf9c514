"""The embedding settings as one frozen value, so that nothing below reads Django's settings."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from convmemory.core.config import config
from convmemory.embeddings.model_folder import DEFAULT_MODEL, INCLUDED_MODELS

LOCAL = "local"
OPENAI = "openai"
PROVIDERS = (LOCAL, OPENAI)
NO_TOKENS = "none"


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """The model, its source, and the limits of its use. 0 means "not set" for dimensions, max_tokens and threads.

    `without_prompts` opens a folder's model as releases without prompts did, for the spaces that they built.
    `token_model` names the model of the token vectors: an included model, a folder, or "none".
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
    token_model: str = NO_TOKENS

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
            token_model=config.embedding_token_model,
        )

    def of_tokens(self) -> "EmbeddingOptions | None":
        """Return the options of the token model, None if there is none."""
        if self.token_model == NO_TOKENS:
            return None
        is_included = self.token_model in INCLUDED_MODELS
        path = None if is_included else Path(self.token_model).expanduser().resolve()
        return replace(
            self,
            provider=LOCAL,
            model=self.token_model if is_included else DEFAULT_MODEL,
            model_path=path,
            dimensions=0,
            max_tokens=0,
            token_model=NO_TOKENS,
        )

    def take_included_weights(self) -> bool:
        """Return whether the sentence model or the token model is one that comes with this program."""
        models = (self, self.of_tokens())
        return any(
            one is not None and one.provider == LOCAL and not one.model_path and one.model in INCLUDED_MODELS
            for one in models
        )

    def of_sentences(self) -> "EmbeddingOptions":
        """Return the options of the sentence model alone."""
        return replace(self, token_model=NO_TOKENS)
