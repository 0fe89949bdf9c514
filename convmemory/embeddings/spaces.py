"""The active and the building embedding space, and the embedder of a space.

The table of spaces decides, not the settings: those name the model of a new database, the model that `manage.py
reembed` builds by default, and how models are reached. An embedder is opened once in each process and kept; it has
threads and connections, so a forked child opens its own. See docs/adr/0015-build-new-embedding-space-online.md.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone

from convmemory.core.errors import EmbedderUnavailable, InvalidInput, SettingError
from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.embedder import Embedder, ModelCard
from convmemory.embeddings.model_folder import DEFAULT_MODEL
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.options import LOCAL, OPENAI, PROVIDERS, EmbeddingOptions

RECIPE_VERSION = 1
"""Raised whenever the text built from a turn or passage changes, so that everything is embedded again."""


class _Opened:
    """The embedders of this process."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.by_options: dict[EmbeddingOptions, Embedder] = {}
        self.lock = threading.Lock()


_opened = _Opened()


def default_embedder() -> Embedder:
    """Return the embedder that the settings name.

    Raises:
        SettingError: the settings name no possible model.
        EmbedderUnavailable: the model does not exist.
    """
    return open_embedder(EmbeddingOptions.from_settings())


def open_embedder(options: EmbeddingOptions) -> Embedder:
    """Return the embedder that `options` name, the same object for the same options in one process."""
    with _opened.lock:
        if options not in _opened.by_options:
            _opened.by_options[options] = _make(options)
        return _opened.by_options[options]


def embedder_for(space: EmbeddingSpace) -> Embedder:
    """Return the embedder of a space, which may be another than the one that the settings name.

    Raises:
        EmbedderUnavailable: the space's model is unavailable with the current settings.
    """
    led_to = []
    for options in _ways_to(space, EmbeddingOptions.from_settings()):
        try:
            embedder = open_embedder(options)
        except EmbedderUnavailable as error:
            led_to.append(str(error))
            continue
        card = embedder.card
        if (card.provider, card.model, card.dimensions) == (space.provider, space.model, space.dimensions):
            return embedder
        led_to.append(f"The settings lead to {card.provider}/{card.model} with {card.dimensions} dimensions.")
    raise EmbedderUnavailable(
        " ".join([f"What is stored was embedded with {space}, but its model cannot be had.", *led_to])
        + " Set the EMBEDDING_ variables back, or run `manage.py reembed`."
    )


def active_space() -> EmbeddingSpace:
    """Return the space that is searched and written; created from the settings' model if there is none yet.

    Queried from the database each time, so that every process sees a switch at once. Settings that name another model
    change nothing here: `manage.py reembed` does.
    """
    active = EmbeddingSpace.objects.filter(is_active=True).first()
    if active is not None:
        return active
    try:
        with transaction.atomic():
            space = configured_space()
            EmbeddingSpace.objects.filter(pk=space.pk).update(is_active=True)
    except IntegrityError:
        pass  # another process with other settings created it first
    return EmbeddingSpace.objects.get(is_active=True)


def send_active_space_query() -> PendingQuery:
    """Send the query for the active space, so that it shares a round trip with others; `read_space` reads it."""
    return PendingQuery(load_sql("convmemory.embeddings", "active_space"), {}, keeps_plan=True)


def read_space(pending: PendingQuery) -> EmbeddingSpace | None:
    """Return the active space of a query already sent; None if there is none yet, and `active_space` creates it."""
    return next((EmbeddingSpace(*row) for row in pending.rows()), None)


def building_space() -> EmbeddingSpace | None:
    """Return the space that is being built for a switch, if any: new content is embedded in it and in the
    active one.
    """
    return EmbeddingSpace.objects.filter(is_building=True).first()


def configured_space() -> EmbeddingSpace:
    """Return the space of the settings' model and this version's text recipe, active or not."""
    return space_of(EmbeddingOptions.from_settings())


def space_of(options: EmbeddingOptions) -> EmbeddingSpace:
    """Return the space of the model that `options` name and of this version's text recipe; created if there is none.

    Raises: like `open_embedder`.
    """
    location = str(options.model_path or "") if options.provider == LOCAL else options.base_url
    space, _ = EmbeddingSpace.objects.update_or_create(
        **space_key(open_embedder(options).card), defaults={"location": location}
    )
    return space


def start_building(space: EmbeddingSpace) -> None:
    """Embed new content in `space` too from now on.

    Raises:
        InvalidInput: it is the active one, or another one is being built.
    """
    try:
        with transaction.atomic():
            started = EmbeddingSpace.objects.filter(pk=space.pk, is_active=False).update(
                is_building=True, retired_at=None
            )
    except IntegrityError:
        raise InvalidInput(
            f"{building_space()} is being built already: finish it by running `manage.py reembed` with its model, "
            "or give it up with `manage.py reembed --cancel`."
        ) from None
    if not started:
        raise InvalidInput(f"{space} is the active space: there is nothing to build beside it.")
    space.is_building = True


def stop_building(space: EmbeddingSpace) -> None:
    """Stop embedding new content in `space`; its rows stay until it is pruned."""
    EmbeddingSpace.objects.filter(pk=space.pk, is_building=True).update(is_building=False, retired_at=timezone.now())
    space.is_building = False


def activate_space(space: EmbeddingSpace) -> None:
    """Make `space` the active one, in one transaction; the previous one is retired."""
    with transaction.atomic():
        others = EmbeddingSpace.objects.filter(is_active=True).exclude(pk=space.pk)
        others.update(is_active=False, retired_at=timezone.now())
        EmbeddingSpace.objects.filter(pk=space.pk).update(is_active=True, is_building=False, retired_at=None)
    space.is_active, space.is_building = True, False


def space_key(card: ModelCard) -> dict[str, Any]:
    """Return the fields that identify a space, for a model and this version's text recipe."""
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


def _ways_to(space: EmbeddingSpace, options: EmbeddingOptions) -> Iterator[EmbeddingOptions]:
    """Yield the settings adapted to the model of `space`, and the location from which the space was built.

    A key is sent only to the address that it was configured with.
    """
    if space.provider == LOCAL:
        yield from _ways_to_local(space, replace(options, provider=LOCAL, model=DEFAULT_MODEL))
        return
    named = (options.provider, options.model) == (space.provider, space.model)
    options = replace(options, provider=space.provider, model=space.model, dimensions=space.dimensions)
    if named or space.location in ("", options.base_url):
        yield options
    else:
        yield replace(options, base_url=space.location, api_key="")


def _ways_to_local(space: EmbeddingSpace, options: EmbeddingOptions) -> Iterator[EmbeddingOptions]:
    if space.model == DEFAULT_MODEL:
        yield replace(options, model_path=None)
        return
    paths = [options.model_path, Path(space.location) if space.location else None]
    for path in filter(None, dict.fromkeys(paths)):
        for without_prompts, dimensions in product((False, True), (0, space.dimensions)):
            yield replace(options, model_path=path, dimensions=dimensions, without_prompts=without_prompts)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_opened.reset)

# --- checks ---------------------------------------------------------------------------------------
# System checks: the settings name a usable model, and it is the active one.
#
# They query the database, so Django runs them only with `migrate` and with `check --database default`.


@register(Tags.database)
def check_active_space(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """Return E001 for invalid settings, W001 if `manage.py reembed` is needed, W002 without a model."""
    if "default" not in (databases or ()):
        return []
    try:
        key = space_key(default_embedder().card)
    except SettingError as error:
        return [Error(str(error), id="embeddings.E001")]
    except EmbedderUnavailable as error:
        return [Warning(str(error), id="embeddings.W002")]
    try:
        active = EmbeddingSpace.objects.filter(is_active=True).first()
    except DatabaseError:  # not migrated yet
        return []
    if active is None or all(getattr(active, name) == value for name, value in key.items()):
        return []
    return [
        Warning(
            f"The settings name {key['provider']}/{key['model']} with {key['dimensions']} dimensions, recipe "
            f"{key['recipe_version']}, but what is stored was embedded with {active}, which stays in use.",
            hint="Run `manage.py reembed` to change over, or set the EMBEDDING_ variables to the model in use.",
            id="embeddings.W001",
        )
    ]
