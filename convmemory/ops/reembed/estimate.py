"""Estimates a run without running it: counts, tokens, and the price if the model has one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection

from convmemory.core.sql import load_sql
from convmemory.embeddings import prices
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.options import LOCAL, EmbeddingOptions

NO_SPACE = -1


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate; `texts` and `tokens` are upper limits: equal or cached texts cost nothing.

    The model of the active space counted `tokens`; `unknown_items` have no rows to count from.
    """

    sources: int
    items: int
    texts: int
    tokens: int
    unknown_items: int

    @property
    def known_items(self) -> int:
        return self.items - self.unknown_items


def estimate(sources: Mapping[int, int], *, target: EmbeddingSpace | None, active: EmbeddingSpace) -> Estimate:
    """Estimate the work for sources (ids with their numbers of items) in `target`, which may not exist yet.

    One query.
    """
    parameters: dict[str, Any] = {
        "sources": list(sources),
        "target": target.pk if target else NO_SPACE,
        "known": active.pk,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "embedding_estimate"), parameters)
        todo, counted, texts, tokens, documents = cursor.fetchone()
    never_indexed = max(0, sum(sources.values()) - documents)
    return Estimate(len(sources), todo + never_indexed, texts, tokens, todo - counted + never_indexed)


def estimate_lines(found: Estimate, options: EmbeddingOptions) -> list[str]:
    """Return the estimate as sentences."""
    lines = [f"{found.sources:,} sources, {found.items:,} items to embed."]
    if found.known_items:
        lines.append(
            f"At most {found.texts:,} texts with some {found.tokens:,} tokens for {found.known_items:,} items."
        )
    if found.unknown_items:
        lines.append(f"{found.unknown_items:,} items have no vectors yet to estimate from.")
    price = prices.price_usd(model=options.model, base_url=options.base_url, tokens=found.tokens)
    if options.provider == LOCAL:
        lines.append("The model runs here: it costs nothing but time.")
    elif price is None:
        lines.append(f"What {options.base_url} charges for {options.model} is not known here.")
    else:
        lines.append(f"Some {price:,.2f} US dollars, by the prices of {prices.AS_OF}.")
    return lines
