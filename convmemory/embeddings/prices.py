"""Endpoints' prices of embeddings, for estimates only.

Source: https://developers.openai.com/api/docs/pricing, as of `AS_OF`. The provider's bill decides.
"""

from datetime import date

AS_OF = date(2026, 11, 1)
OPENAI_HOST = "api.openai.com"
USD_PER_MILLION_TOKENS = {
    "text-embedding-3-small": 0.02,
    "text-embedding-3-large": 0.13,
    "text-embedding-ada-002": 0.10,
}


def price_usd(*, model: str, base_url: str, tokens: int) -> float | None:
    """Return the price of this many tokens; None if it is not known, as for every server but OpenAI's own."""
    per_million = USD_PER_MILLION_TOKENS.get(model)
    if per_million is None or OPENAI_HOST not in base_url:
        return None
    return tokens * per_million / 1_000_000
