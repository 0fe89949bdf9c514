"""Recalls from the archive of a person and the spaces that they read, each by itself, and merges what comes back."""

from collections.abc import Sequence
from dataclasses import replace

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from convmemory.accounts.models import SpaceMember
from convmemory.accounts.pages import archive_of_address
from convmemory.accounts.spaces import chosen_archives, name_of, reading
from memory.recall import Recall, RecallQuery, recall
from search.archives import OWN, explanation_of_all, merge_ranked
from search.reasons import Reason, pending_of_all


def recall_archives(
    *,
    caller: AbstractBaseUser | AnonymousUser | None,
    spaces: Sequence[SpaceMember],
    query: RecallQuery,
    chosen: str = "",
) -> Recall:
    """Return what `recall` brings from the caller's archive and their `spaces`, best first.

    `chosen` restricts it to the caller's archive (`MINE`) or to the space with this number; a conversation, to the
    archive that holds it. Messages of several archives are merged like the hits of a search.

    Raises: like `recall`, and NotFound for another space.
    """
    archives = chosen_archives(spaces, chosen)
    if query.conversation_id is not None and spaces:
        owner_id = archive_of_address({"conversation_id": query.conversation_id})
        archives = [member for member in archives if member and member.space_id == owner_id] or [None]
    found: dict[int, Recall] = {}
    for member in archives:
        owner = member.space if member else caller
        with reading(member):
            page = recall(owner=owner, query=query)
        space = name_of(member)
        messages = tuple(replace(message, space=space) for message in page.messages) if space else page.messages
        found[member.space_id if member else OWN] = replace(page, messages=messages)
    if len(found) == 1:
        return next(iter(found.values()))
    ranked = merge_ranked({number: page.messages for number, page in found.items()}, limit=query.top_k)
    # Something answers if it does in one archive; nothing does only if that is known of each.
    answers = {page.answered for page in found.values()}
    said = [page.explanation for page in found.values() if page.explanation and (page.pending or not ranked)]
    waiting = pending_of_all(page.waiting for page in found.values())
    explanation = explanation_of_all(said)
    if explanation and explanation.reason is Reason.PENDING:
        explanation = waiting.explanation  # that of all archives
    return Recall(
        query.text,
        messages=tuple(message for _, message in ranked),
        notes=tuple(dict.fromkeys(note for page in found.values() for note in page.notes)),
        answered=next((answer for answer in (True, None, False) if answer in answers), None),
        total_found=sum(page.total_found for page in found.values()),
        explanation=explanation,
        waiting=waiting,
    )
