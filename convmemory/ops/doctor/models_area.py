"""The embedding spaces and their models: whether each model can be loaded, and is unchanged."""

from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

from django.db.models import F, Q, Sum
from django.utils import timezone

from convmemory.core.errors import ConvMemoryError, EmbedderUnavailable, RerankerUnavailable
from convmemory.core.program import COMMAND, TO_INSTALL_MODEL
from convmemory.embeddings import model_folder
from convmemory.embeddings.default_model import default_folder
from convmemory.embeddings.local import model_name
from convmemory.embeddings.model_folder import INCLUDED_MODELS, ModelFiles, find_model, fresh_digest, model_file
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.options import LOCAL, EmbeddingOptions
from convmemory.embeddings.sentence_recipe import read_recipe
from convmemory.embeddings.spaces import (
    active_space,
    building_space,
    can_be_named,
    embedder_for,
    is_moved_by_workers,
    space_key,
)
from convmemory.ops.doctor.findings import Area, Fact, Finding, Severity
from convmemory.ops.models import KnownModel
from convmemory.ops.reembed.changing_over import retired_spaces
from convmemory.ops.reembed.targets import PROBE, settings_for, try_models
from search.models import Source, SourceIndex
from search.ranking.reranking import PASSAGE_CHARS, QUESTION_CHARS, RerankOptions, rerank

ABANDONED = timedelta(hours=1)
ENGLISH_ALONE = frozenset((LOCAL, name) for name in INCLUDED_MODELS)
"""Models, by provider and name, that know English only; for most models it is unknown."""


def facts() -> Iterator[Fact]:
    for space in EmbeddingSpace.objects.order_by("pk"):
        state = "active" if space.is_active else "building" if space.is_building else "retired"
        yield f"space {space.pk}", f"{space}, {state}"
    for name, files in _weights():
        yield f"weights of {name}", f"SHA-256 {_digest(files)}"


def check_active_model() -> Iterator[Finding]:
    space = active_space()
    try:
        try_models(embedder_for(space))
    except ConvMemoryError as error:
        yield Finding(
            "models.unavailable",
            Severity.ERROR,
            f"Nothing can be embedded, and searches go by words only: {error}",
            "Set the EMBEDDING_ variables to " + " ".join(settings_for(space)) + f", or run `{COMMAND} reembed`.",
        )


def check_reranker() -> Iterator[Finding]:
    """Send as many and as long texts as a search may, because endpoints limit both."""
    options = RerankOptions.from_settings()
    if options is None:
        return
    document = (f"{PROBE} " * (QUESTION_CHARS + PASSAGE_CHARS))[: QUESTION_CHARS + PASSAGE_CHARS]
    try:
        rerank(options, query=PROBE, documents=[document] * options.top_k)
    except RerankerUnavailable as error:
        yield Finding(
            "models.reranker-unavailable",
            Severity.WARNING,
            f"The reranker does not answer, so searches keep the fused order: {error}",
            "Correct the RERANK_ settings, or unset RERANK_URL to search without a reranker.",
        )


def check_weights() -> Iterator[Finding]:
    for name, files in _weights():
        digest = _digest(files)
        # "" if the files are those of the model that was embedded with, otherwise the name that it should have.
        if name in INCLUDED_MODELS:
            expected = "" if digest == model_folder.DEFAULT_SHA256 else model_folder.DEFAULT_SHA256
        else:
            recipe = read_recipe(files.folder)
            named = {model_name(files, each, digest) for each in (recipe, recipe.without_prompts())}
            suffix = name.rpartition("@")[2]
            expected = "" if suffix in {one.rpartition("@")[2] for one in named} else suffix
        if expected:
            yield Finding(
                "models.weights-changed",
                Severity.ERROR,
                f"{files.weights} is not what {name} was embedded with: SHA-256 {digest}, expected {expected}….",
                f"Put the original file back (`{TO_INSTALL_MODEL}` for the default model), or run `{COMMAND} reembed`.",
            )


def check_model_files() -> Iterator[Finding]:
    """Report a changed tokenizer or configuration, which a model's name shows only if a graph or prompts are used."""
    digests = dict(KnownModel.objects.values_list("name", "sha256"))
    for name, files in _weights():
        if name in digests and digests[name] != files_digest(files):
            yield Finding(
                "models.files-changed",
                Severity.ERROR,
                f"The tokenizer or a configuration file in {files.folder} is not what {name} was embedded with.",
                "Put the original files back. To use the changed ones, copy the folder under another name and run "
                f"`{COMMAND} reembed --model` with the copy.",
            )


def remember_models() -> None:
    """Record the files of local models in use that are not recorded yet, in the deep sweep; `doctor` compares them."""
    names = set(KnownModel.objects.values_list("name", flat=True))
    for name, files in _weights():
        if name not in names:
            KnownModel.objects.get_or_create(name=name, defaults={"sha256": files_digest(files)})


def files_digest(files: ModelFiles) -> str:
    """Return the SHA-256 in hex of the tokenizer, the configuration and the recipe of a model. Raises: OSError."""
    small = fresh_digest([model_file(files.folder, name) for name in ("tokenizer.json", "config.json")])
    return sha256(f"{small} {read_recipe(files.folder).digest()}".encode()).hexdigest()


def check_settings_agree() -> Iterator[Finding]:
    try:
        key = space_key(EmbeddingOptions.from_settings())
    except ConvMemoryError as error:
        yield Finding(
            "models.settings-wrong", Severity.WARNING, f"The settings name no model: {error}", "Set EMBEDDING_MODEL."
        )
        return
    active = active_space()
    if any(getattr(active, name) != value for name, value in key.items()) and not is_moved_by_workers(active, key):
        yield Finding(
            "models.settings-differ",
            Severity.WARNING,
            f"The settings name {EmbeddingSpace(**key)}, but {active} is in use.",
            f"Run `{COMMAND} reembed` to change over"
            + (f", or set {' '.join(settings_for(active))}" if can_be_named(active) else "."),
        )


def check_building() -> Iterator[Finding]:
    space = building_space()
    if space is None:
        return
    newest = SourceIndex.objects.filter(space=space).order_by("-updated_at").first()
    if newest is None or newest.updated_at < timezone.now() - ABANDONED:
        yield Finding(
            "models.build-abandoned",
            Severity.WARNING,
            f"{space} is being built, but nothing works on it; meanwhile all new content is embedded twice.",
            f"Run `{COMMAND} reembed` with its model to continue, or `{COMMAND} reembed --cancel` to discard it.",
        )


def check_languages() -> Iterator[Finding]:
    """Yield a notice about owners whose texts are in languages that the model does not know.

    Only languages with a stemmer count: texts in scripts without spaces are not distinguished.
    """
    space = active_space()
    if (space.provider, space.model) not in ENGLISH_ALONE:
        return
    others = Sum("item_count", filter=~Q(languages=""), default=0)
    sums = Source.objects.values("archive_id").annotate(all_items=Sum("item_count"), others=others)
    owners = list(sums.filter(others__gt=F("all_items") / 2).values_list("archive_id", flat=True))
    if not owners:
        return
    named = Source.objects.filter(archive_id__in=owners).exclude(languages="").values_list("languages", flat=True)
    languages = sorted({language for names in named.distinct() for language in names.split()})
    yield Finding(
        "models.language-unknown",
        Severity.NOTICE,
        f"What {len(owners)} of the users have is mostly in other languages than English ({', '.join(languages)}); "
        f"{space.model} knows English alone, so searches by meaning miss much of it.",
        f"Take a model of many languages (docs/models.md): `{COMMAND} evaluate own --user U --against FOLDER` compares "
        f"it first, `{COMMAND} reembed --model FOLDER` changes over. Searches by words find them with any model.",
    )


def check_retired() -> Iterator[Finding]:
    for space in retired_spaces():
        yield Finding(
            "models.space-retired",
            Severity.NOTICE,
            f"{space} is no longer searched and still takes space.",
            f"Once you are satisfied with the active one, run `{COMMAND} reembed --prune`.",
        )


def _weights() -> Iterator[tuple[str, ModelFiles]]:
    """Yield the local models of the spaces in use, by name, whose files exist; `check_active_model` reports others."""
    in_use = EmbeddingSpace.objects.filter(Q(is_active=True) | Q(is_building=True)).order_by("pk")
    models = [(space.model, space.location) for space in in_use if space.provider == LOCAL]
    models += [(space.token_model, space.token_location) for space in in_use if space.token_model]
    for name, location in dict.fromkeys(models):
        try:
            if name in INCLUDED_MODELS:
                yield name, ModelFiles.of_bert(default_folder())
            elif location:
                yield name, find_model(Path(location))
        except EmbedderUnavailable:
            continue


def _digest(files: ModelFiles) -> str:
    """Compute the digest from the files: a cached digest would hide a change of a file."""
    return fresh_digest(files.all_weights())


AREA = Area(
    "models",
    facts,
    (
        check_active_model,
        check_weights,
        check_model_files,
        check_settings_agree,
        check_building,
        check_retired,
        check_reranker,
        check_languages,
    ),
)
