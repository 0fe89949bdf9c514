"""Compares models on questions generated from a user's own turns. Nothing is stored.

See docs/adr/0064-compare-models-on-own-archive.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from django.contrib.auth.models import AbstractBaseUser

from convmemory.core.errors import InvalidInput
from convmemory.embeddings.embedder import Embedder
from convmemory.embeddings.spaces import active_space, embedder_for
from convmemory.evaluation.comparing import paired_difference
from convmemory.evaluation.own_questions import KINDS, OwnQuestion, make_questions
from convmemory.evaluation.own_ranking import OwnResult, rank_own, words_of
from convmemory.evaluation.own_sample import sample_turns
from convmemory.ops.reembed.targets import checked_embedder, target_options

RANKINGS = ("vectors", "fused")
MEASURES = ("hit@1", "hit@5", "mrr")
DECIDES = ("fused", "mrr")
"""The ranking and the measure that decide the verdict: search uses the fused ranking, not a vector alone."""


def compare_on_own(
    owner: AbstractBaseUser,
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
    sample = sample_turns(owner, turns=turns, seed=seed)
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
    found: dict[str, Any] = {
        "model": embedder.card.model,
        "dimensions": embedder.card.dimensions,
        "passages_per_second": round(result.passages_per_second, 1),
    }
    for ranking in RANKINGS:
        rows = getattr(result, ranking)
        found[ranking] = {"all": _means(rows)}
        for kind in kinds:
            found[ranking][kind] = _means([row for row, q in zip(rows, asked, strict=True) if q.kind == kind])
    return found


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(fmean(row[name] for row in rows), 4) for name in MEASURES}


def _against(embedder: Embedder, first: OwnResult, other: OwnResult, asked: Sequence[OwnQuestion]) -> dict[str, Any]:
    homes = [question.conversation for question in asked]
    found: dict[str, Any] = {"model": embedder.card.model}
    for ranking in RANKINGS:
        found[ranking] = {}
        for name in MEASURES:
            this, that = ([row[name] for row in getattr(result, ranking)] for result in (first, other))
            difference = paired_difference(this, that, homes)
            found[ranking][name] = {**asdict(difference), "verdict": difference.verdict}
    ranking, name = DECIDES
    found["verdict"] = found[ranking][name]["verdict"]
    return found


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
    for found in report["differences"]:
        lines += ["", f"{found['model']} against {report['models'][0]['model']}: {found['verdict']}"]
        for ranking in RANKINGS:
            for name, values in found[ranking].items():
                interval = f"[{values['low']:+.4f}, {values['high']:+.4f}]"
                lines.append(f"    {ranking + ', ' + name:<22}{values['mean']:>+8.4f} {interval}  {values['verdict']}")
    return lines
