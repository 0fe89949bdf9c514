"""Draws a sample of one user's turns, in the form in which they are searched, to compare models. Only reads."""

import random

from django.contrib.auth.models import AbstractBaseUser

from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import messages_of_turns
from convmemory.core.errors import InvalidInput
from convmemory.evaluation.own_questions import OwnTurn
from search.adapters.messages import items_of
from search.sources import ItemText
from search.vectors.drafts import Draft, draft_passages

TURNS_OF_ONE = 20
"""At most this many turns of one conversation are drawn, so that a long one does not dominate the sample."""

PASSAGES_OF_ONE = 40
MIN_CONVERSATIONS = 5


def sample_turns(owner: AbstractBaseUser, *, turns: int, seed: int = 0) -> list[OwnTurn]:
    """Return turns of randomly drawn conversations, up to `turns` turns; the same seed draws the same ones.

    Raises: InvalidInput if the owner has too few conversations for a comparison.
    """
    ids = sorted(Conversation.objects.filter(owner_id=owner.pk, turn_count__gt=0).values_list("pk", flat=True))
    if len(ids) < MIN_CONVERSATIONS:
        raise InvalidInput(
            f"The archive has {len(ids)} conversations with turns: {MIN_CONVERSATIONS} are needed to compare models on."
        )
    random.Random(seed).shuffle(ids)  # noqa: S311 - repeatable on purpose
    found: list[OwnTurn] = []
    for conversation_id in ids:
        if len(found) >= turns:
            break
        conversation = Conversation.objects.get(pk=conversation_id, owner_id=owner.pk)
        items = items_of(messages_of_turns(conversation, 0, TURNS_OF_ONE - 1))
        found += [_turn(conversation, item) for item in items]
    return found[:turns]


def _turn(conversation: Conversation, item: ItemText) -> OwnTurn:
    drafts = [draft for draft in draft_passages(item.elements) if draft.span.kind in ("user", "assistant")]
    asked = [draft for draft in drafts if draft.span.kind == "user"][:PASSAGES_OF_ONE]
    answered = [draft for draft in drafts if draft.span.kind == "assistant"][:PASSAGES_OF_ONE]
    return OwnTurn(
        conversation=conversation.pk,
        title=conversation.title,
        opening=_span(asked[0]) if asked else "",
        asked=tuple(draft.text for draft in asked),
        answered=tuple(draft.text for draft in answered),
    )


def _span(draft: Draft) -> str:
    """Return the passage without its speaker."""
    part = next(part for part in draft.element.parts if part.index == draft.span.part_index)
    return part.text[draft.span.start : draft.span.end].strip()
