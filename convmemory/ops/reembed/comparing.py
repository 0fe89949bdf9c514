"""Compares models on questions generated from a user's own turns. Nothing is stored.

See docs/adr/0064-compare-models-on-own-archive.md.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import messages_of_turns
from convmemory.core.errors import InvalidInput
from convmemory.embeddings.embedder import Embedder
from convmemory.embeddings.spaces import active_space, embedder_for
from convmemory.ops.reembed.own_questions import KINDS, OwnQuestion, OwnTurn, make_questions
from convmemory.ops.reembed.own_ranking import OwnResult, rank_own, words_of
from convmemory.ops.reembed.targets import checked_embedder, target_options
from search.adapters.conversations import items_of
from search.sources import ItemText
from search.vectors.passages import draft_passages

RANKINGS = ("vectors", "fused")
MEASURES = ("hit@1", "hit@5", "mrr")
DECIDES = ("fused", "mrr")
"""The ranking and the measure that decide the verdict: search uses the fused ranking, not a vector alone."""


def compare_on_own(
    caller: Caller,
    *,
    against: Sequence[str],
    turns: int,
    questions: int,
    seed: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Return figures of the active model and of each in `against` (named as for `reembed --model`), as JSON values.

    Raises: InvalidInput if the archive is too small; EmbedderUnavailable or SettingError if a model cannot be used.
    """
    embedders = [embedder_for(active_space()), *(checked_embedder(target_options(model=name)) for name in against)]
    sample = sample_turns(caller, turns=turns, seed=seed)
    asked = make_questions(sample, at_most=questions, seed=seed)
    if not asked:
        raise InvalidInput("No question can be made from these turns: they are too short. Try more with --turns.")
    words = words_of(sample)
    results: list[tuple[Embedder, OwnResult]] = []
    for embedder in embedders:
        progress(f"embedding {len(sample):,} turns with {embedder.card.model}")
        results.append((embedder, rank_own(sample, asked, embedder, words)))
    first = results[0][1]
    return {
        "turns": len(sample),
        "conversations": len({turn.conversation for turn in sample}),
        "questions": {kind: sum(question.kind == kind for question in asked) for kind in KINDS},
        "models": [_of_model(embedder, result, asked) for embedder, result in results],
        "differences": [_against(embedder, first, result, asked) for embedder, result in results[1:]],
    }


def _of_model(embedder: Embedder, result: OwnResult, asked: Sequence[OwnQuestion]) -> dict[str, Any]:
    kinds = [kind for kind in KINDS if any(question.kind == kind for question in asked)]
    figures: dict[str, Any] = {
        "model": embedder.card.model,
        "dimensions": embedder.card.dimensions,
        "passages_per_second": round(result.passages_per_second, 1),
    }
    for ranking in RANKINGS:
        rows = getattr(result, ranking)
        figures[ranking] = {"all": _means(rows)}
        for kind in kinds:
            figures[ranking][kind] = _means([row for row, q in zip(rows, asked, strict=True) if q.kind == kind])
    return figures


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(fmean(row[name] for row in rows), 4) for name in MEASURES}


def _against(embedder: Embedder, first: OwnResult, other: OwnResult, asked: Sequence[OwnQuestion]) -> dict[str, Any]:
    homes = [question.conversation for question in asked]
    differences: dict[str, Any] = {"model": embedder.card.model}
    for ranking in RANKINGS:
        differences[ranking] = {}
        for name in MEASURES:
            this, that = ([row[name] for row in getattr(result, ranking)] for result in (first, other))
            difference = paired_difference(this, that, homes)
            differences[ranking][name] = {**asdict(difference), "verdict": difference.verdict}
    ranking, name = DECIDES
    differences["verdict"] = differences[ranking][name]["verdict"]
    return differences


def lines_of(report: dict[str, Any]) -> list[str]:
    """Return the report as tables."""
    made = ", ".join(f"{count} by {kind}" for kind, count in report["questions"].items())
    lines = [f"{report['turns']:,} turns of {report['conversations']:,} conversations; questions: {made}"]
    for model in report["models"]:
        lines += [
            "",
            f"{model['model']}, {model['dimensions']} dimensions, {model['passages_per_second']:,} passages/s",
        ]
        for ranking in RANKINGS:
            for kind, figures in model[ranking].items():
                lines.append(f"    {ranking + ', ' + kind:<22}" + "".join(f"{n:>8} {figures[n]:.4f}" for n in MEASURES))
    for difference in report["differences"]:
        lines += ["", f"{difference['model']} against {report['models'][0]['model']}: {difference['verdict']}"]
        for ranking in RANKINGS:
            for name, values in difference[ranking].items():
                interval = f"[{values['low']:+.4f}, {values['high']:+.4f}]"
                lines.append(f"    {ranking + ', ' + name:<22}{values['mean']:>+8.4f} {interval}  {values['verdict']}")
    return lines


TURNS_OF_ONE = 20
"""At most this many turns of one conversation are drawn, so that a long one does not dominate the sample."""

PASSAGES_OF_ONE = 40
MIN_CONVERSATIONS = 5


def sample_turns(caller: Caller, *, turns: int, seed: int = 0) -> list[OwnTurn]:
    """Return turns of randomly drawn conversations, up to `turns` turns; the same seed draws the same ones.

    Raises: InvalidInput if the owner has too few conversations for a comparison.
    """
    ids = sorted(
        Conversation.objects.filter(archive_id=caller.archive_id, turn_count__gt=0).values_list("pk", flat=True)
    )
    if len(ids) < MIN_CONVERSATIONS:
        raise InvalidInput(
            f"The archive has {len(ids)} conversations with turns: {MIN_CONVERSATIONS} are needed to compare models on."
        )
    random.Random(seed).shuffle(ids)  # noqa: S311 - repeatable on purpose
    sample: list[OwnTurn] = []
    for conversation_id in ids:
        if len(sample) >= turns:
            break
        conversation = Conversation.objects.get(pk=conversation_id, archive_id=caller.archive_id)
        items = items_of(messages_of_turns(conversation, 0, TURNS_OF_ONE - 1))
        sample += [_turn(conversation, item) for item in items]
    return sample[:turns]


def _turn(conversation: Conversation, item: ItemText) -> OwnTurn:
    drafts = [draft for draft in draft_passages(item.elements) if draft.span.kind in ("user", "assistant")]
    asked = [draft for draft in drafts if draft.span.kind == "user"][:PASSAGES_OF_ONE]
    answered = [draft for draft in drafts if draft.span.kind == "assistant"][:PASSAGES_OF_ONE]
    if asked:
        draft = asked[0]
        part = next(part for part in draft.element.parts if part.index == draft.span.part_index)
        opening = part.text[draft.span.start : draft.span.end].strip()
    else:
        opening = ""
    return OwnTurn(
        conversation=conversation.pk,
        title=conversation.title,
        opening=opening,
        asked=tuple(draft.text for draft in asked),
        answered=tuple(draft.text for draft in answered),
    )


SAMPLES = 2_000
LEVEL = 95
"""The percentage of resampled differences within the interval."""

MIN_CLUSTERS = 10
"""With fewer conversations an interval is too narrow to be trusted."""


# Questions of one conversation are not independent evidence, so whole conversations are resampled (a cluster
# bootstrap). Source: Field and Welsh, 2007, Bootstrapping clustered data.
@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of `other - this` over the questions, and the interval from `low` to `high`."""

    mean: float
    low: float
    high: float
    clusters: int

    @property
    def verdict(self) -> str:
        if self.clusters < MIN_CLUSTERS:
            return "too few conversations to tell"
        if self.low > 0:
            return "better here"
        if self.high < 0:
            return "worse here"
        return "not told apart"


def paired_difference(
    this: Sequence[float], other: Sequence[float], clusters: Sequence[int], *, seed: int = 0
) -> Difference:
    """Compare values of the same questions in the same order; `clusters` names the conversation of each."""
    differences = np.asarray(other, float) - np.asarray(this, float)
    names, places = np.unique(np.asarray(clusters), return_inverse=True)
    sums, counts = np.bincount(places, differences), np.bincount(places)
    drawn = np.random.default_rng(seed).integers(0, len(names), (SAMPLES, len(names)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.percentile(means, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return Difference(float(differences.mean()), float(low), float(high), len(names))
