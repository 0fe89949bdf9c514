"""Measures search in documents with questions whose answers are exact spans.

A set is a folder with `questions_df.csv` and Markdown files; all files form one library. The figures are the share of a
question's reference characters in the first k hits, as whole sections and as the marked passages, and their
intersection over union. They are compared with a plain splitter on the same model: chunks of 400 tokens that overlap by
half, with scaled cosine and BM25 added. Source: brandonstarxel/chunking_evaluation.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from django.contrib.auth.models import User

from benchmarks.running import PREFIX, OnProgress
from convmemory.accounts.callers import Caller
from convmemory.core.acting import acting_for
from convmemory.core.errors import InvalidInput
from convmemory.core.text import Span
from convmemory.documents import library
from convmemory.documents.models import Document
from convmemory.documents.processing import process_document
from convmemory.embeddings.spaces import active_space, embedder_for
from convmemory.ops.reembed.own_ranking import Bm25
from search.adapters.documents import KIND
from search.indexing.active import index_source
from search.models import Source
from search.query import SEARCHED_CHARS, DocumentScope, SearchQuery
from search.ranking.rankers import scale
from search.results.matching import stems_of
from search.searching import search

CUTOFFS = (1, 5, 10, 20)
# A plain splitter for comparison: windows of 400 tokens, each beginning in the middle of the one before.
CHUNK_TOKENS, STEP_TOKENS = 400, 200

Found = tuple[str, int, int]
"""The corpus, and the first and last character in its text."""


@dataclass(frozen=True, slots=True)
class SpanQuestion:
    """A question, the corpus that answers it, and the answering spans."""

    text: str
    corpus: str
    spans: tuple[Span, ...]


def read_questions(folder: Path) -> list[SpanQuestion]:
    """Return the questions. Raises: InvalidInput if the folder is not such a set."""
    try:
        with (folder / "questions_df.csv").open(newline="", encoding="utf-8") as file:
            return [
                SpanQuestion(
                    row["question"],
                    row["corpus_id"],
                    union((each["start_index"], each["end_index"]) for each in json.loads(row["references"])),
                )
                for row in csv.DictReader(file)
            ]
    except (OSError, KeyError, ValueError) as error:
        raise InvalidInput(f"{folder} is not a set of documents with questions: {error}") from error


def union(spans: Iterator[Span] | Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans in order, with touching ones merged."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def recall_and_iou(question: SpanQuestion, hits: Sequence[Found]) -> tuple[float, float]:
    """Return recall and intersection over union of the reference's characters.

    Spans found in other documents only enlarge the union.
    """
    right = union([(start, end) for corpus, start, end in hits if corpus == question.corpus])
    inside = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in question.spans for b in right)
    elsewhere = sum(end - start for corpus, start, end in hits if corpus != question.corpus)
    reference, covered = (sum(end - start for start, end in spans) for spans in (question.spans, right))
    return inside / reference, inside / (reference + covered + elsewhere - inside)


def load_library(folder: Path, questions: Sequence[SpanQuestion], progress: OnProgress) -> Caller:
    """Return the scratch caller with each corpus as a document, read and indexed."""
    caller = Caller.of(User.objects.get_or_create(username=f"{PREFIX}documents-library")[0])
    corpora = sorted({question.corpus for question in questions})
    for number, corpus in enumerate(corpora, 1):
        data = (folder / f"{corpus}.md").read_bytes()
        with acting_for(caller.archive_id):
            stored = library.store_file(archive_id=caller.archive_id, file=io.BytesIO(data), name=f"{corpus}.md")
            document = library.add_document(caller=caller, stored=stored).document
            process_document(archive_id=caller.archive_id, document_id=document.pk)
            source = Source.objects.get(archive_id=caller.archive_id, kind=KIND, object_id=document.pk)
            index_source(archive_id=caller.archive_id, source_id=source.pk)
        progress("indexed", number, len(corpora))
    return caller


def measure_search(
    caller: Caller, questions: Sequence[SpanQuestion], *, mode: str, progress: OnProgress
) -> dict[str, float]:
    """Return recall and intersection over union of the sections and of their marked passages."""
    names = {
        pk: name.removesuffix(".md")
        for pk, name in Document.objects.filter(archive_id=caller.archive_id).values_list("pk", "name")
    }
    items: list[list[Found]] = []
    passages: list[list[Found]] = []
    for number, question in enumerate(questions, 1):
        query = SearchQuery(
            text=question.text[:SEARCHED_CHARS], limit=max(CUTOFFS), mode=mode, document_scope=DocumentScope()
        )
        hits = search(caller=caller, query=query).hits
        items.append([(names[hit.object_id], hit.section.start, hit.section.end) for hit in hits])
        passages.append([(names[hit.object_id], hit.passage_start, hit.passage_end) for hit in hits])
        progress("searched", number, len(questions))
    return _figures("section", questions, items) | _figures("passage", questions, passages)


def measure_plain_splitter(
    folder: Path, caller: Caller, questions: Sequence[SpanQuestion], progress: OnProgress
) -> dict[str, float]:
    """Return the same for overlapping chunks, ranked by the sum of scaled cosine and BM25."""
    space = active_space()
    embedder = embedder_for(space)
    chunks: list[Found] = []
    texts: list[str] = []
    for corpus in sorted({question.corpus for question in questions}):
        text = (folder / f"{corpus}.md").read_text(encoding="utf-8")
        offsets = embedder.token_spans(text)
        for first in range(0, len(offsets), STEP_TOKENS):
            last = offsets[min(first + CHUNK_TOKENS, len(offsets)) - 1]
            chunks.append((corpus, offsets[first][0], last[1]))
            texts.append(text[offsets[first][0] : last[1]])
    vectors = embedder.embed_passages(texts)
    queries = np.vstack([embedder.embed_query(question.text) for question in questions])
    words = Bm25(texts, count_words=stems_of)
    rankings = []
    for number, (question, cosines) in enumerate(zip(questions, queries @ vectors.T, strict=True), 1):
        best = np.argsort(-(scale(cosines) + scale(words.scores(question.text))), kind="stable")[: max(CUTOFFS)]
        rankings.append([chunks[index] for index in best])
        progress("searched by the splitter", number, len(questions))
    return _figures("chunk", questions, rankings)


def _figures(unit: str, questions: Sequence[SpanQuestion], rankings: Sequence[Sequence[Found]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for k in CUTOFFS:
        values = [recall_and_iou(question, hits[:k]) for question, hits in zip(questions, rankings, strict=True)]
        figures[f"{unit}_recall@{k}"] = round(fmean(recall for recall, _ in values), 4)
        figures[f"{unit}_iou@{k}"] = round(fmean(iou for _, iou in values), 4)
    return figures
