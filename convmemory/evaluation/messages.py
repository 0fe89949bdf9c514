"""Runs the questions of a haystack through recall, and measures the returned messages and a context built from them.

An observation has the same format as one of turns; its keys are (conversation, position) of messages.
"""

import time
from collections.abc import Iterable

import numpy as np
from django.contrib.auth.models import User

from convmemory.conversations.messages.parts import part_text
from convmemory.conversations.models import Message
from convmemory.evaluation.haystacks import Haystack, MessageRef
from convmemory.evaluation.running import Observation, OnProgress
from memory.context import build_memory_context
from memory.message_features import message_keys
from memory.recall import MAX_TOP_K, RecallQuery, choose_messages, rank_messages
from search.adapters.conversations import split_message
from search.pipeline import rank_items
from search.query import SEARCHED_CHARS, SearchQuery
from search.retrieval.candidates import item_keys

Stored = dict[MessageRef, Message]


def observe_messages(
    owner: User, haystack: Haystack, *, mode: str, budget: int, progress: OnProgress
) -> list[Observation]:
    """Return an observation for each question whose evidence is stored messages, recalled as it is worded."""
    rows = Message.objects.filter(owner_id=owner.pk).select_related("conversation")
    stored = {(row.conversation.source_id, row.source_key): row for row in rows}
    found = []
    for number, question in enumerate(haystack.questions, 1):
        evidence = [stored[ref] for ref in question.messages if ref in stored]
        if evidence:
            query = SearchQuery(text=question.text[:SEARCHED_CHARS], mode=mode)
            started = time.perf_counter()
            ranked = rank_messages(rank_items(owner_id=owner.pk, query=query))
            milliseconds = (time.perf_counter() - started) * 1000
            # For each kind of context 1 if it contains all evidence messages completely, otherwise 0.
            every = RecallQuery(query.text, top_k=MAX_TOP_K, threshold=0.0, min_relevance=0.0)
            results = choose_messages(every, ranked).messages
            wanted = [_folded(text) for message in evidence for text in _passages(message)]
            shares = {}
            for name, partners in (("with_partners", True), ("without_partners", False)):
                text = _folded(build_memory_context(results, budget, partners=partners).text)
                shares[f"in_context_{name}"] = float(all(passage in text for passage in wanted))
            found.append(
                Observation(
                    question=question,
                    gold=np.unique(item_keys([m.conversation_id for m in evidence], [m.position for m in evidence])),
                    gold_conversations=frozenset(message.conversation_id for message in evidence),
                    keys=ranked.table.keys,
                    features=ranked.table.columns,
                    order=message_keys(ranked.candidates),
                    milliseconds=milliseconds,
                    more=shares,
                )
            )
        progress("recalled", number, len(haystack.questions))
    return found


def _passages(message: Message) -> Iterable[str]:
    parts = message.typed_parts
    for span in split_message(parts, is_real_user=message.is_real_user, is_assistant=message.role == "assistant"):
        yield part_text(parts[span.part_index])[span.start : span.end]


def _folded(text: str) -> str:
    return " ".join(text.split())
