"""Works on one summary: claims it, writes it, stores it. It is safe to run twice and to interrupt at any point.

A claim is valid until `due_at`. A worker that lost its claim stores nothing. Temporary failures of an endpoint are
retried with growing pauses, at most `SUMMARIES.max_attempts` times; the sweep finds lost work.
"""

import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from convmemory.accounts.quota import metered
from convmemory.core.config import config
from convmemory.core.endpoints.completions import Endpoint, endpoint_from_settings
from convmemory.core.errors import (
    ConvMemoryError,
    EmbedderMisconfigured,
    EmbedderUnavailable,
    EndpointBusy,
    EndpointUnavailable,
    QuotaUsedUp,
)
from convmemory.core.queue.fair_queue import slice_end
from convmemory.core.queue.retrying import SUMMARIES
from convmemory.core.tokens import ESTIMATE, count_tokens
from convmemory.core.trash import outside_trash
from summaries.by_model import PROMPT_VERSION, SummaryProgress, WrittenSummary, write_summary
from summaries.extractive import choose_sentences
from summaries.models import ConversationSummary
from summaries.sentences import sentence_vectors, spoken_sentences
from summaries.transcript import RangeMessage, load_range, message_text

# A Retry-After header is honoured up to this: the endpoint must not decide when work is tried again next.
LONGEST_WAIT = timedelta(minutes=15)
# Added to the time limit of a task, so that a claim never ends while its worker may still run.
CLAIM_MARGIN = timedelta(seconds=60)

_LIST_MARK = re.compile(r"^(?:(?:[-*+>]|#+|\d+[.)])\s+)+")

State = ConversationSummary.Status


@dataclass(frozen=True, slots=True)
class SummaryOutcome:
    """The outcome of one run: `status` is the summary's state now; `again_in_s` says when to work on it again, if
    at all.
    """

    status: str
    again_in_s: float | None = None


def make_summary(*, archive_id: int, summary_id: int) -> SummaryOutcome | None:
    """Work on the summary if it is due and unclaimed; return None if there is nothing to do."""
    summary = _claim(archive_id, summary_id)
    if summary is None:
        return None
    try:
        messages = load_range(summary.conversation, summary.from_position, summary.to_position)
        written: WrittenSummary | None
        if summary.method == ConversationSummary.Method.EXTRACTIVE:
            written = extract(messages, archive_id=summary.archive_id, max_tokens=config.summary_max_tokens)
        else:
            endpoint = endpoint_from_settings()
            if endpoint is None:
                raise ConvMemoryError(
                    "This summary's language model is not set up any more: set CHAT_MODEL, or regenerate it."
                )
            written = _by_model(summary, endpoint, messages)
    except QuotaUsedUp as error:
        # Set the summary to pending until the owner's quota is renewed. Its finished pieces are kept; the sweep resumes
        # it.
        _own(summary).update(
            status=State.PENDING, error=str(error)[:1_000], due_at=error.ends_at, attempts=0, updated_at=timezone.now()
        )
        return SummaryOutcome(State.PENDING, again_in_s=error.retry_after_s)
    except ConvMemoryError as error:
        return _store_failure(summary, error)
    except Exception as error:
        _store_failure(summary, error)
        raise
    if written is None:
        _own(summary).update(status=State.PENDING, due_at=timezone.now(), attempts=0, updated_at=timezone.now())
        return SummaryOutcome(State.PENDING, again_in_s=0)
    now = timezone.now()
    is_model = summary.method == ConversationSummary.Method.MODEL
    stored = _own(summary).update(
        status=State.COMPLETED,
        content=written.text,
        model=written.model[:200],
        token_count=written.token_count,
        prompt_version=PROMPT_VERSION if is_model else None,
        partials={},
        error="",
        completed_at=now,
        updated_at=now,
    )
    return SummaryOutcome(State.COMPLETED) if stored else None


def summaries_to_make(*, limit: int) -> list[tuple[int, int, int | None]]:
    """Return the owners and ids of due summaries, and who asked for them in a space: new ones, retries, and those whose
    worker was lost.
    """
    due = ConversationSummary.objects.filter(_unfinished(), due_at__lte=timezone.now())
    rows = due.filter(outside_trash("conversation"))
    return list(rows.order_by("due_at").values_list("archive_id", "pk", "asked_by")[:limit])


def _unfinished() -> Q:
    return Q(status__in=(State.PENDING, State.PROCESSING))


def _claim(archive_id: int, summary_id: int) -> ConversationSummary | None:
    now, run = timezone.now(), uuid.uuid4()
    due = ConversationSummary.objects.filter(_unfinished(), pk=summary_id, archive_id=archive_id, due_at__lte=now)
    lost = due.filter(status=State.PROCESSING, attempts__gte=SUMMARIES.max_attempts)
    lost.update(
        status=State.FAILED, error=f"The work on it was interrupted {SUMMARIES.max_attempts} times.", updated_at=now
    )
    until = now + timedelta(seconds=config.task_timeout_s) + CLAIM_MARGIN
    if not due.update(status=State.PROCESSING, run=run, due_at=until, attempts=F("attempts") + 1, updated_at=now):
        return None
    return ConversationSummary.objects.select_related("conversation").filter(archive_id=archive_id, run=run).first()


def _own(summary: ConversationSummary) -> QuerySet[ConversationSummary]:
    """Return a query for the row that matches only while this run holds the claim."""
    return ConversationSummary.objects.filter(pk=summary.pk, run=summary.run, status=State.PROCESSING)


def _store_failure(summary: ConversationSummary, error: Exception) -> SummaryOutcome:
    may_pass = isinstance(error, (EndpointUnavailable, EmbedderUnavailable)) and not isinstance(
        error, EmbedderMisconfigured
    )
    again = may_pass and summary.attempts < SUMMARIES.max_attempts
    pause = SUMMARIES.pause_after(summary.attempts)
    if isinstance(error, EndpointBusy) and error.retry_after_s is not None:
        pause = max(pause, timedelta(seconds=min(error.retry_after_s, LONGEST_WAIT.total_seconds())))
    message = str(error) if isinstance(error, ConvMemoryError) else f"{type(error).__name__}: {error}"
    now = timezone.now()
    status = State.PENDING if again else State.FAILED
    _own(summary).update(status=status, error=message[:1_000], due_at=now + pause, updated_at=now)
    return SummaryOutcome(status, again_in_s=pause.total_seconds() if again else None)


def _by_model(
    summary: ConversationSummary, endpoint: Endpoint, messages: Sequence[RangeMessage]
) -> WrittenSummary | None:
    texts = [text for message in messages if (text := message_text(message))]
    if not texts:
        raise ConvMemoryError("The messages of this range say nothing that could be summarised.")
    deadline = slice_end()
    done: dict[str, str] = dict(summary.partials)

    def keep(key: str, text: str) -> None:
        done[key] = text
        # Progress resets the attempts: only runs that finish no piece count as failures.
        summary.attempts = 1
        _own(summary).update(partials=done, attempts=1, updated_at=timezone.now())

    progress = SummaryProgress(
        done,
        keep,
        lambda: time.monotonic() < deadline,
        lambda tokens: metered(archive_id=summary.archive_id, person_id=summary.asked_by, tokens=tokens),
    )
    return write_summary(endpoint, texts, max_tokens=config.summary_max_tokens, progress=progress)


def extract(messages: Sequence[RangeMessage], *, archive_id: int, max_tokens: int) -> WrittenSummary:
    """Return the sentences that represent the messages, in order, in at most `max_tokens` tokens.

    Raises: EmbedderUnavailable; ConvMemoryError if the messages contain no sentence.
    """
    sentences, vectors = sentence_vectors(spoken_sentences(messages), archive_id=archive_id)
    if not sentences:
        raise ConvMemoryError("The messages of this range hold no sentences to choose from.")
    lines = [f"- {sentence.speaker}: {_LIST_MARK.sub('', sentence.text)}" for sentence in sentences]
    counts = [count_tokens(line, encoding=ESTIMATE) + 1 for line in lines]
    chosen = choose_sentences(vectors, counts, max_tokens=max_tokens)
    text = "\n".join(lines[index] for index in chosen or [0])
    return WrittenSummary(text, model="", token_count=count_tokens(text, encoding=ESTIMATE))
