"""Lists the usable models, and the cost of switching to each, in time and in bytes of database.

Examines the given folders, the model of the settings and the places of known spaces. Each usable model embeds a few
passages to measure its speed; only facts about models are stored.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from convmemory.core.errors import ConvMemoryError
from convmemory.embeddings.embedder import Embedder, ModelCard
from convmemory.embeddings.local import LocalSentenceEmbedder
from convmemory.embeddings.model_folder import (
    BERT_WEIGHTS,
    GRAPH_FOLDER,
    GRAPH_SUFFIX,
    INCLUDED_MODELS,
)
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.options import LOCAL, EmbeddingOptions
from convmemory.embeddings.spaces import active_space, open_embedder, space_key
from convmemory.ops import capacity
from convmemory.ops.reembed.targets import estimate, target_options
from search.indexing.sweeping import DEFECTS, SourceSelection, select_active, select_building

PASSAGES = 96
PASSAGE = "How long does dough with a rye starter have to rest before it is baked?"
VECTOR_TABLES = frozenset(
    {
        "search_itemembedding",
        "search_passageblock",
    }
)


@dataclass(frozen=True, slots=True)
class SwitchCost:
    """The maximum cost of embedding the whole archive; `database_bytes` are in addition to the present vectors."""

    texts: int
    tokens: int
    seconds: float
    database_bytes: int


@dataclass(frozen=True, slots=True)
class Choice:
    """A model at a place. `problem` is the reason why it cannot be used; then there is no card."""

    place: str
    card: ModelCard | None = None
    query_prompt: str = ""
    passage_prompt: str = ""
    token_model: str = ""
    disk_bytes: int = 0
    tokens_per_second: float = 0.0
    is_active: bool = False
    cost: SwitchCost | None = None
    problem: str = ""


def list_choices(paths: Iterable[Path]) -> Iterator[Choice]:
    """Yield the included models, the active one, and those at `paths`, each a model or a folder of models."""
    active = active_space()
    settings = EmbeddingOptions.from_settings()
    places = [settings.model_path] if settings.provider == LOCAL and settings.model_path else []
    if active.provider == LOCAL and active.location:
        places.append(Path(active.location))
    for path in (name.expanduser().resolve() for name in paths):
        inside = sorted(path.iterdir()) if path.is_dir() and not looks_like_a_model(path) else [path]
        places += [each for each in inside if looks_like_a_model(each) or each == path]
    chosen = [target_options(model=str(folder)) for folder in dict.fromkeys(places)]
    endpoint = [settings] if settings.provider != LOCAL else []
    included = [target_options(provider=LOCAL, model=name) for name in INCLUDED_MODELS]
    for options in [*endpoint, *included, *chosen]:
        yield _choice(options, active)


def looks_like_a_model(path: Path) -> bool:
    """Return whether the path is a graph, or a folder with a graph or with a BERT's weights."""
    if path.is_file():
        return path.suffix == GRAPH_SUFFIX
    graphs = [*path.glob(f"*{GRAPH_SUFFIX}"), *path.glob(f"{GRAPH_FOLDER}/*{GRAPH_SUFFIX}")]
    return bool(graphs) or (path / BERT_WEIGHTS).is_file()


def _choice(options: EmbeddingOptions, active: EmbeddingSpace) -> Choice:
    address = str(options.model_path or "") if options.provider == LOCAL else options.base_url
    try:
        key = space_key(options)
        embedder = open_embedder(options)
        rate = measure_rate(embedder)
    except ConvMemoryError as error:
        return Choice(address, problem=str(error))
    is_active = all(getattr(active, name) == value for name, value in key.items())
    choice = Choice(address, embedder.card, token_model=key["token_model"], tokens_per_second=rate, is_active=is_active)
    if isinstance(embedder, LocalSentenceEmbedder):
        recipe, files = embedder.model.recipe, embedder.model.files
        disk = sum(path.stat().st_size for path in files.all_weights())
        choice = replace(
            choice, query_prompt=recipe.query_prompt, passage_prompt=recipe.passage_prompt, disk_bytes=disk
        )
    return choice if is_active else replace(choice, cost=switch_cost(key, active, rate))


def measure_rate(embedder: Embedder) -> float:
    """Return tokens per second over passages of ordinary length, without the first text, which loads the model."""
    texts = [f"{number}. {PASSAGE}" for number in range(PASSAGES)]
    tokens = sum(embedder.count_tokens(texts))
    embedder.embed_passages(texts[:1])
    started = time.perf_counter()
    embedder.embed_passages(texts)
    return tokens / (time.perf_counter() - started)


def switch_cost(key: Mapping[str, Any], active: EmbeddingSpace, tokens_per_second: float) -> SwitchCost:
    """Return the cost of `manage.py reembed` to the space with this key on one machine, from the counts of the active
    space.
    """
    target = EmbeddingSpace.objects.filter(**key).first()
    everything = SourceSelection()
    if target == active:
        sources = select_active(active, everything, DEFECTS, mark=False)
    else:
        sources = select_building(target or EmbeddingSpace(pk=0), everything, DEFECTS)
    work = estimate(sources, target=target, active=active)
    # The bytes from the bytes per row in docs/scaling.md.
    if not work.items:
        database_bytes = 0
    else:
        load = capacity.Load(
            users=1,
            turns_per_user=work.items,
            passages_per_turn=work.texts / work.items,
            dimensions=key["dimensions"],
            token_dimensions=key["token_dimensions"],
        )
        whole = capacity.estimate(load)
        database_bytes = sum(line.total for line in whole.lines if line.table in VECTOR_TABLES)
    return SwitchCost(work.texts, work.tokens, work.tokens / tokens_per_second, database_bytes)
