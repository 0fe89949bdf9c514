"""OpenAI's embedding models, the card of the model that the options name, and prices for estimates."""

from datetime import date
from typing import NamedTuple

from convmemory.core.errors import SettingError
from convmemory.embeddings.embedder import MAX_DIMENSIONS, ModelCard
from convmemory.embeddings.options import OPENAI, EmbeddingOptions

# For estimates only: the provider's bill decides. Source: https://developers.openai.com/api/docs/pricing, at `AS_OF`.
AS_OF = date(2026, 11, 1)
OPENAI_HOST = "api.openai.com"
USD_PER_MILLION_TOKENS = {
    "text-embedding-3-small": 0.02,
    "text-embedding-3-large": 0.13,
    "text-embedding-ada-002": 0.10,
}


class KnownModel(NamedTuple):
    """One of OpenAI's models. Source: https://platform.openai.com/docs/guides/embeddings"""

    dimensions: int
    max_tokens: int
    can_shorten: bool


KNOWN_MODELS = {
    "text-embedding-3-small": KnownModel(1536, 8191, can_shorten=True),
    "text-embedding-3-large": KnownModel(3072, 8191, can_shorten=True),
    "text-embedding-ada-002": KnownModel(1536, 8191, can_shorten=False),
}
DEFAULT_MAX_TOKENS = 512  # of most sentence models


def read_card(options: EmbeddingOptions) -> ModelCard:
    """Return the card of the model that the options name.

    Raises:
        SettingError: its dimensions are not known, or are not possible.
    """
    known_model = KNOWN_MODELS.get(options.model)
    dimensions = options.dimensions or (known_model.dimensions if known_model else 0)
    if not dimensions:
        raise SettingError(f"EMBEDDING_DIMENSIONS must be set: the dimensions of {options.model} are not known.")
    if (
        known_model
        and dimensions != known_model.dimensions
        and (not known_model.can_shorten or dimensions > known_model.dimensions)
    ):
        raise SettingError(f"EMBEDDING_DIMENSIONS={dimensions} is not possible with {options.model}: leave it unset.")
    if dimensions > MAX_DIMENSIONS:
        raise SettingError(f"EMBEDDING_DIMENSIONS={dimensions} is too large: {MAX_DIMENSIONS} can be indexed at most.")
    limit = known_model.max_tokens if known_model else DEFAULT_MAX_TOKENS
    return ModelCard(
        provider=OPENAI,
        model=options.model,
        dimensions=dimensions,
        max_tokens=min(options.max_tokens or limit, limit) if known_model else options.max_tokens or limit,
        licence="",
        token_dimensions=0,
    )


def price_usd(*, model: str, base_url: str, tokens: int) -> float | None:
    """Return the price of this many tokens; None if it is not known, as for every server but OpenAI's own."""
    per_million = USD_PER_MILLION_TOKENS.get(model)
    if per_million is None or OPENAI_HOST not in base_url:
        return None
    return tokens * per_million / 1_000_000
