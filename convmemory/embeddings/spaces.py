"""The active and the building embedding space, and the embedder of a space.

The table of spaces decides, not the settings: those name the model of a new database, the model that `manage.py
reembed` builds by default, and how models are reached. An embedder is opened once in each process and kept; it has
threads and connections, so a forked child opens its own. See docs/adr/0015-build-new-embedding-space-online.md.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from convmemory.core.errors import EmbedderUnavailable, InvalidInput, SettingError
from convmemory.core.program import COMMAND
from convmemory.core.sql import PendingQuery, load_sql
from convmemory.core.tokens import encoding_for, likely_tokens
from convmemory.embeddings.embedder import Embedder
from convmemory.embeddings.local import LocalEmbedder, open_local
from convmemory.embeddings.model_folder import DEFAULT_MODEL, EXACT_MODEL, INCLUDED_MODELS, INT8_MODEL
from convmemory.embeddings.models import SENTENCE_FIELDS, EmbeddingSpace
from convmemory.embeddings.options import LOCAL, NO_TOKENS, OPENAI, PROVIDERS, EmbeddingOptions
from convmemory.embeddings.token_model import PairedEmbedder, background_mean

BITS = 8  # codes of token vectors take whole bytes
RECIPE_VERSION = 1
"""Raised whenever the text built from a turn or passage changes, so that everything is embedded again."""


class _Opened:
    """The embedders of this process."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.by_options: dict[EmbeddingOptions, Embedder] = {}
        self.lock = threading.Lock()

    def reset_in_child(self) -> None:
        # Kept: freeing a loaded model joins its threads, which a forked child does not have, so that it would hang.
        self._of_parent = self.by_options
        self.reset()


_opened = _Opened()


def open_embedder(options: EmbeddingOptions) -> Embedder:
    """Return the sentence model that `options` name, the same object for the same options in one process."""
    options = options.of_sentences()
    with _opened.lock:
        if options not in _opened.by_options:
            if options.provider == LOCAL:
                _opened.by_options[options] = open_local(options)
            elif options.provider == OPENAI:
                from convmemory.embeddings.openai_compatible import OpenAIEmbedder

                _opened.by_options[options] = OpenAIEmbedder(options)
            else:
                raise SettingError(f"EMBEDDING_PROVIDER={options.provider!r} is unknown: use {' or '.join(PROVIDERS)}.")
        return _opened.by_options[options]


def open_token_model(options: EmbeddingOptions) -> LocalEmbedder | None:
    """Return the token model that `options` name, None if they name none.

    Raises:
        InvalidInput: it provides no token vectors, or their codes do not take whole bytes.
        EmbedderUnavailable: the model does not exist.
    """
    token_options = options.of_tokens()
    if token_options is None:
        return None
    embedder = open_embedder(token_options)
    card = embedder.card
    if not isinstance(embedder, LocalEmbedder):
        raise InvalidInput(
            f"{card.model} provides no token vectors: name another folder as the token model (--token-model, "
            f"EMBEDDING_TOKEN_MODEL), {DEFAULT_MODEL}, or {NO_TOKENS} to search without late interaction."
        )
    if card.dimensions % BITS:
        raise InvalidInput(
            f"{card.model} has {card.dimensions} dimensions: a token model's must be a multiple of {BITS}."
        )
    return embedder


def open_models(options: EmbeddingOptions) -> Embedder:
    """Return an embedder of both models that `options` name, as `embedder_for` does for a space of these models.

    Raises: as `open_embedder` and `open_token_model` do.
    """
    tokens = open_token_model(options)
    if tokens is not None and _is_centred(tokens):
        tokens = tokens.centred(background_mean(tokens))
    return _joined(open_embedder(options), tokens)


def embedder_for(space: EmbeddingSpace) -> Embedder:
    """Return the embedder of a space, whose models may be others than those that the settings name.

    Raises:
        EmbedderUnavailable: a model of the space is unavailable with the current settings.
    """
    settings = EmbeddingOptions.from_settings()
    sentences = _open_first(space, _ways_to(space, settings))
    if not space.token_model:
        return _joined(sentences, None)
    card = sentences.card
    tokens = sentences
    if (card.provider, card.model, card.dimensions) != (LOCAL, space.token_model, space.token_dimensions):
        part = EmbeddingSpace(
            provider=LOCAL,
            model=space.token_model,
            dimensions=space.token_dimensions,
            recipe_version=space.recipe_version,
            location=space.token_location,
        )
        tokens = _open_first(part, _ways_to(part, settings.of_tokens() or settings))
    if not isinstance(tokens, LocalEmbedder):
        return sentences  # a space built before token models had a name, by a graph without token vectors
    mean = np.frombuffer(bytes(space.token_mean), np.float32)
    return _joined(sentences, tokens.centred(mean) if len(mean) else tokens)


def token_counter() -> Callable[[str], int]:
    """Return a function that counts the tokens of a text with the tokenizer of the active space's model.

    Without that tokenizer it estimates. One query.
    """
    space = EmbeddingSpace.objects.filter(is_active=True).first()
    if space is None:
        return likely_tokens
    if space.provider != LOCAL:
        return partial(likely_tokens, encoding=encoding_for(space.model))
    try:
        embedder = embedder_for(space)
        embedder.count_tokens([""])  # opens the tokenizer
    except EmbedderUnavailable:
        return likely_tokens
    return lambda text: embedder.count_tokens([text])[0]


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


_SPACES: ContextVar[list[EmbeddingSpace] | None] = ContextVar("active_space", default=None)


@contextmanager
def one_active_space() -> Iterator[None]:
    """Read the active space once in the block, so that a search of several archives compares vectors of one."""
    token = _SPACES.set([])
    try:
        yield
    finally:
        _SPACES.reset(token)


def read_active_space() -> EmbeddingSpace | None:
    """Return the active space; None if there is none yet, and `active_space` creates it. At most one query."""
    kept = _SPACES.get()
    if not kept:
        pending = PendingQuery(load_sql("convmemory.embeddings", "active_space"), {}, keeps_plan=True)
        rows: list[Any] = pending.rows()
        space = EmbeddingSpace(*rows[0]) if rows else None
        if kept is None or space is None:
            return space
        kept.append(space)
    return kept[0]


def building_space() -> EmbeddingSpace | None:
    """Return the space that is being built for a switch, if any: new content is embedded in it and in the
    active one.
    """
    return EmbeddingSpace.objects.filter(is_building=True).first()


def configured_space() -> EmbeddingSpace:
    """Return the space of the settings' model and this version's text recipe, active or not."""
    return space_of(EmbeddingOptions.from_settings())


def space_of(options: EmbeddingOptions) -> EmbeddingSpace:
    """Return the space of the models that `options` name and of this version's text recipe; created if there is none.

    Raises: like `open_embedder` and `open_token_model`.
    """
    key = space_key(options)
    token_options, tokens = options.of_tokens(), open_token_model(options)
    locations = {
        "location": str(options.model_path or "") if options.provider == LOCAL else options.base_url,
        "token_location": str(token_options.model_path or "") if token_options else "",
    }

    def token_mean() -> bytes:
        return background_mean(tokens).tobytes() if tokens and key["is_centred"] else b""

    space, _ = EmbeddingSpace.objects.update_or_create(
        **key, defaults=locations, create_defaults={**locations, "token_mean": token_mean}
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
            f"{building_space()} is being built already: finish it by running `{COMMAND} reembed` with its model, "
            f"or give it up with `{COMMAND} reembed --cancel`."
        ) from None
    if not started:
        raise InvalidInput(f"{space} is the active space: there is nothing to build next to it.")
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


def space_key(options: EmbeddingOptions) -> dict[str, Any]:
    """Return the fields that identify a space, for the models that `options` name and this version's text recipe.

    Raises: like `open_embedder` and `open_token_model`.
    """
    card, tokens = open_embedder(options).card, open_token_model(options)
    return {
        "provider": card.provider,
        "model": card.model,
        "dimensions": card.dimensions,
        "recipe_version": RECIPE_VERSION,
        "token_model": tokens.card.model if tokens else "",
        "token_dimensions": tokens.card.dimensions if tokens else 0,
        "is_centred": tokens is not None and _is_centred(tokens),
    }


def is_moved_by_workers(active: EmbeddingSpace, key: Mapping[str, Any]) -> bool:
    """Return whether workers change over from the active space to the one with this key (ops/reembed/moving.py).

    They differ by the form of the included model alone, and no administrator has given the new space up.
    """
    present = {name: getattr(active, name) for name in key}
    in_int8_form = {name: INT8_MODEL if value == EXACT_MODEL else value for name, value in present.items()}
    if present == key or in_int8_form != key:
        return False
    return not EmbeddingSpace.objects.filter(**key).exclude(retired_at=None).exists()


def can_be_named(space: EmbeddingSpace) -> bool:
    """Return whether settings can name the models of a space: not if an earlier version left its tokens uncentred."""
    return space.is_centred or space.token_model in ("", *INCLUDED_MODELS)


def with_same_sentences(space: EmbeddingSpace) -> QuerySet[EmbeddingSpace]:
    """Return the spaces with the same sentence model and text recipe, this one included: their vectors are equal."""
    return EmbeddingSpace.objects.filter(**{name: getattr(space, name) for name in SENTENCE_FIELDS})


def _is_centred(tokens: LocalEmbedder) -> bool:
    """Return whether the background's mean is subtracted from a model's token vectors.

    Those of the included weights do without (docs/adr/0089-token-model-of-its-own.md).
    """
    return tokens.card.model not in INCLUDED_MODELS


def _joined(sentences: Embedder, tokens: LocalEmbedder | None) -> Embedder:
    """Return one embedder of both models, which runs once where they are the same."""
    if tokens is None:
        return sentences.without_tokens() if isinstance(sentences, LocalEmbedder) else sentences
    if isinstance(sentences, LocalEmbedder) and sentences.model is tokens.model:
        return tokens
    return PairedEmbedder(sentences, tokens)


def _open_first(space: EmbeddingSpace, ways: Iterable[EmbeddingOptions]) -> Embedder:
    """Return the first sentence model among these options that is the space's."""
    led_to = []
    for options in ways:
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
        + f" Set the EMBEDDING_ variables back, or run `{COMMAND} reembed`."
    )


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
    if space.model in INCLUDED_MODELS:
        yield replace(options, model=space.model, model_path=None)
        return
    paths = [options.model_path, Path(space.location) if space.location else None]
    for path in filter(None, dict.fromkeys(paths)):
        for without_prompts, dimensions in product((False, True), (0, space.dimensions)):
            yield replace(options, model_path=path, dimensions=dimensions, without_prompts=without_prompts)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_opened.reset_in_child)


@register(Tags.database)
def check_active_space(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """Return E001 for invalid settings, W001 if `manage.py reembed` is needed, W002 without a model.

    It queries the database, so Django runs it only with `migrate` and with `check --database default`.
    """
    if "default" not in (databases or ()):
        return []
    try:
        key = space_key(EmbeddingOptions.from_settings())
    except (SettingError, InvalidInput) as error:
        return [Error(str(error), id="embeddings.E001")]
    except EmbedderUnavailable as error:
        return [Warning(str(error), id="embeddings.W002")]
    try:
        active = EmbeddingSpace.objects.filter(is_active=True).first()
    except DatabaseError:  # not migrated yet
        return []
    if active is None or all(getattr(active, name) == value for name, value in key.items()):
        return []
    if is_moved_by_workers(active, key):
        return []
    return [
        Warning(
            f"The settings name {EmbeddingSpace(**key)}, but what is stored was embedded with {active}, which stays "
            "in use.",
            hint=f"Run `{COMMAND} reembed` to change over"
            + (", or set the EMBEDDING_ variables to the models in use." if can_be_named(active) else "."),
            id="embeddings.W001",
        )
    ]
