"""The models that `manage.py reembed` embeds with, and the estimate of a run."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.db import connection

from convmemory.core.errors import InvalidInput
from convmemory.core.sql import load_sql
from convmemory.core.text import masked
from convmemory.embeddings import openai_models
from convmemory.embeddings.embedder import Embedder, TokenEmbedder
from convmemory.embeddings.model_folder import DEFAULT_MODEL, INCLUDED_MODELS
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.openai_models import KNOWN_MODELS
from convmemory.embeddings.options import LOCAL, NO_TOKENS, OPENAI, EmbeddingOptions
from convmemory.embeddings.spaces import open_models
from search.retrieval.candidates import item_keys
from search.vectors.packing import texts_and_tokens

PROBE = "A short sentence."


def target_options(
    *, provider: str = "", model: str = "", dimensions: int = 0, base_url: str = "", token_model: str = ""
) -> EmbeddingOptions:
    """Return the models given by the command's options; omitted options take the settings' values.

    `model` is a name, or the folder or the graph (`.onnx`) of a local model; `token_model` is the default model's name,
    a folder, or "none". Raises: InvalidInput if the options contradict each other.
    """
    settings = EmbeddingOptions.from_settings()
    settings = replace(settings, token_model=token_model or settings.token_model)
    # A name like `BAAI/bge-m3`, of a model behind an endpoint, is not a path.
    is_path = bool(model) and (model.startswith((os.sep, ".", "~")) or Path(model).exists())
    folder = Path(model).expanduser().resolve() if is_path else None
    provider = provider or _provider_of(model, folder, base_url, settings)
    if provider == LOCAL:
        if base_url:
            raise InvalidInput(
                f"--base-url {masked(base_url)} goes only with a model behind an endpoint: name one by --provider "
                f"{OPENAI} and --model, or leave --base-url out."
            )
        if not model and settings.provider == LOCAL:
            return replace(settings, dimensions=dimensions or settings.dimensions)
        if folder is None and model not in ("", *INCLUDED_MODELS):
            raise InvalidInput(
                f"--model {model} is neither a folder nor {' or '.join(INCLUDED_MODELS)}: give the path of a model's "
                f"folder, or --provider {OPENAI} for a model behind an endpoint."
            )
        same_model = settings.provider == LOCAL and folder == settings.model_path
        kept = settings.dimensions if same_model else 0
        return replace(
            settings,
            provider=LOCAL,
            model=model if model in INCLUDED_MODELS and not folder else DEFAULT_MODEL,
            model_path=folder,
            dimensions=dimensions or kept,
        )
    if folder:
        raise InvalidInput(f"--model {model} is a folder: leave --provider out, or use --provider {LOCAL}.")
    same_model = settings.provider == OPENAI and model in ("", settings.model)
    if not model and not same_model:
        raise InvalidInput(f"--provider {provider} needs --model, for example --model text-embedding-3-small.")
    elsewhere = bool(base_url) and base_url != settings.base_url
    return replace(
        settings,
        provider=provider,
        model=model or settings.model,
        model_path=None,
        dimensions=dimensions or (settings.dimensions if same_model else 0),
        base_url=base_url or settings.base_url,
        api_key="" if elsewhere else settings.api_key,
    )


def checked_embedder(options: EmbeddingOptions, *, dimensions: int = 0) -> Embedder:
    """Return the embedder of the target's models, tried with one sentence, so that an impossible run does not begin.

    Raises:
        InvalidInput: its dimensions differ from the requested ones, or the token vectors cannot be stored.
        EmbedderUnavailable, SettingError: a model cannot be used.
    """
    embedder = open_models(options)
    card = embedder.card
    if dimensions and dimensions != card.dimensions:
        raise InvalidInput(f"{card.model} has {card.dimensions} dimensions, not {dimensions}: leave --dimensions out.")
    try_models(embedder)
    return embedder


def try_models(embedder: Embedder) -> None:
    """Embed one sentence with each of the models. Raises: EmbeddingError if one cannot be used."""
    if isinstance(embedder, TokenEmbedder):
        list(embedder.embed_passages_with_tokens([PROBE]))
    else:
        embedder.embed_passages([PROBE])


def settings_for(space: EmbeddingSpace) -> list[str]:
    """Return the environment variables that would configure the models of `space`."""
    tokens = space.token_model if space.token_model in INCLUDED_MODELS else space.token_location or NO_TOKENS
    lines = [f"EMBEDDING_PROVIDER={space.provider}"]
    if space.provider == LOCAL:
        is_included = space.model in INCLUDED_MODELS
        model = space.model if is_included else DEFAULT_MODEL
        lines += [f"EMBEDDING_MODEL={model}", f"EMBEDDING_MODEL_PATH={space.location}"]
        if not is_included:
            lines.append(f"EMBEDDING_DIMENSIONS={space.dimensions}")
    else:
        lines += [f"EMBEDDING_MODEL={space.model}", f"EMBEDDING_DIMENSIONS={space.dimensions}"]
        if space.location:
            lines.append(f"EMBEDDING_BASE_URL={masked(space.location)}")
    return [*lines, f"EMBEDDING_TOKEN_MODEL={tokens}"]


def _provider_of(model: str, folder: Path | None, base_url: str, settings: EmbeddingOptions) -> str:
    if folder or model in INCLUDED_MODELS:
        return LOCAL
    if base_url or model in KNOWN_MODELS:
        return OPENAI
    return settings.provider


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

    Reads the digests of the texts of these sources.
    """
    parameters: dict[str, Any] = {
        "sources": list(sources),
        "target": target.pk if target else NO_SPACE,
        "known": active.pk,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "embedding_estimate"), parameters)
        todo, counted, in_sources, in_items, documents = cursor.fetchone()
    texts, tokens = texts_and_tokens(item_keys(in_sources, in_items), active, without=target)
    never_indexed = max(0, sum(sources.values()) - documents)
    return Estimate(len(sources), todo + never_indexed, texts, tokens, todo - counted + never_indexed)


def estimate_lines(work: Estimate, options: EmbeddingOptions, *, copies_sentences: bool = False) -> list[str]:
    """Return the estimate as sentences; if only the token model changes, the sentence vectors are copied."""
    lines = [f"{work.sources:,} sources, {work.items:,} items to embed."]
    if work.known_items:
        lines.append(f"At most {work.texts:,} texts with some {work.tokens:,} tokens for {work.known_items:,} items.")
    if work.unknown_items:
        lines.append(f"{work.unknown_items:,} items have no vectors yet to estimate from.")
    price = openai_models.price_usd(model=options.model, base_url=options.base_url, tokens=work.tokens)
    if copies_sentences:
        lines.append("The sentence model stays, so its vectors are copied: only token vectors are computed, here.")
    elif options.provider == LOCAL:
        lines.append("The model runs here: it costs nothing but time.")
    elif price is None:
        lines.append(f"What {options.base_url} charges for {options.model} is not known here.")
    else:
        lines.append(f"Some {price:,.2f} US dollars, by the prices of {openai_models.AS_OF}.")
    return lines
