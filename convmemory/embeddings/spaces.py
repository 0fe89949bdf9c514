"""Which embedding space is active, and the embedder that belongs to a space.

Reads the settings and the table of spaces; the first caller writes the active space. An embedder is
made once a process and kept; it holds threads and connections, so a forked child makes its own.
"""

import os
import threading
from dataclasses import replace
from typing import Any

from django.db import IntegrityError, transaction

from convmemory.core.errors import EmbedderUnavailable, SettingError
from convmemory.embeddings.embedder import Embedder, ModelCard
from convmemory.embeddings.model_folder import DEFAULT_MODEL
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.options import LOCAL, OPENAI, PROVIDERS, EmbeddingOptions

RECIPE_VERSION = 1
"""Raised whenever the text that is made of a turn or passage changes, so that everything is embedded again."""


class _Opened:
    """The embedders of this process."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.by_options: dict[EmbeddingOptions, Embedder] = {}
        self.lock = threading.Lock()


_opened = _Opened()


def default_embedder() -> Embedder:
    """The embedder that the settings name.

    Raises:
        SettingError: the settings name no model that can be.
        EmbedderUnavailable: the model is not there.
    """
    return open_embedder(EmbeddingOptions.from_settings())


def open_embedder(options: EmbeddingOptions) -> Embedder:
    """The embedder that `options` name, the same object for the same options in one process."""
    with _opened.lock:
        if options not in _opened.by_options:
            _opened.by_options[options] = _make(options)
        return _opened.by_options[options]


def embedder_for(space: EmbeddingSpace) -> Embedder:
    """The embedder of a space, which need not be the one that the settings name.

    Raises:
        EmbedderUnavailable: the space's model cannot be had with the present settings.
    """
    embedder = open_embedder(_options_for(space, EmbeddingOptions.from_settings()))
    card = embedder.card
    if (card.provider, card.model, card.dimensions) != (space.provider, space.model, space.dimensions):
        raise EmbedderUnavailable(
            f"What is stored was embedded with {space}, but the settings lead to {card.provider}/{card.model} with "
            f"{card.dimensions} dimensions: set the EMBEDDING_ variables back, or run `manage.py reembed`."
        )
    return embedder


def active_space() -> EmbeddingSpace:
    """The space that is searched and written; made from the settings' model when there is none yet.

    Settings that name another model change nothing here: `manage.py reembed` does.
    """
    active = EmbeddingSpace.objects.filter(is_active=True).first()
    if active is not None:
        return active
    try:
        with transaction.atomic():
            space = configured_space()
            EmbeddingSpace.objects.filter(pk=space.pk).update(is_active=True)
    except IntegrityError:
        pass  # another process, with other settings, was first
    return EmbeddingSpace.objects.get(is_active=True)


def configured_space() -> EmbeddingSpace:
    """The space of the settings' model and this version's text recipe, active or not."""
    space, _ = EmbeddingSpace.objects.get_or_create(**space_key(default_embedder().card))
    return space


def activate_space(space: EmbeddingSpace) -> None:
    """Make `space` the active one, in one transaction."""
    with transaction.atomic():
        EmbeddingSpace.objects.filter(is_active=True).exclude(pk=space.pk).update(is_active=False)
        EmbeddingSpace.objects.filter(pk=space.pk).update(is_active=True)
    space.is_active = True


def space_key(card: ModelCard) -> dict[str, Any]:
    """The fields that tell one space from another, for a model and this version's text recipe."""
    return {
        "provider": card.provider,
        "model": card.model,
        "dimensions": card.dimensions,
        "recipe_version": RECIPE_VERSION,
    }


def _make(options: EmbeddingOptions) -> Embedder:
    if options.provider == LOCAL:
        from convmemory.embeddings.local import open_local

        return open_local(options)
    if options.provider == OPENAI:
        from convmemory.embeddings.openai_compatible import OpenAIEmbedder

        return OpenAIEmbedder(options)
    raise SettingError(f"EMBEDDING_PROVIDER={options.provider!r} is unknown: use {' or '.join(PROVIDERS)}.")


def _options_for(space: EmbeddingSpace, options: EmbeddingOptions) -> EmbeddingOptions:
    """The settings, turned towards the model of `space` as far as they can be."""
    if space.provider == LOCAL:
        path = None if space.model == DEFAULT_MODEL else options.model_path
        return replace(options, provider=LOCAL, model=DEFAULT_MODEL, model_path=path)
    return replace(options, provider=space.provider, model=space.model, dimensions=space.dimensions)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_opened.reset)
