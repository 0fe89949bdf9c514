"""Stars, pins, tags and archiving: marks that people give their conversations, one or many at a time.

Every function takes the caller and changes only the caller's rows. Messages and turns are never changed; `ingest`
announces the changes that concern search.
"""

from collections.abc import Iterable, Sequence

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.accounts.holds import refuse_held
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation, Tag
from convmemory.conversations.reading import get_conversation
from convmemory.core.errors import InvalidInput
from convmemory.core.text import one_line, storable
from convmemory.core.trash import last_expired, outside_trash

TAG_CHARS = 50
MAX_TAGS = 20
# One request works through them one by one.
MAX_CHOSEN = 200
TAGS_LISTED = 100


def set_star(*, caller: Caller, conversation_id: int, starred: bool) -> None:
    """Star the conversation, or remove its star. Raises: NotFound."""
    _mark(caller, [conversation_id], "starred_at", is_set=starred)


def set_pin(*, caller: Caller, conversation_id: int, pinned: bool) -> None:
    """Pin the conversation, or unpin it. Raises: NotFound."""
    _mark(caller, [conversation_id], "pinned_at", is_set=pinned)


def star_all(*, caller: Caller, conversation_ids: Sequence[int], starred: bool) -> list[int]:
    """Star the caller's conversations among the ids, or remove their stars; returns their ids."""
    return _mark(
        caller, own_conversations(caller=caller, conversation_ids=conversation_ids), "starred_at", is_set=starred
    )


def _mark(caller: Caller, conversation_ids: Sequence[int], field: str, *, is_set: bool) -> list[int]:
    """Set the time if it is not set yet, or unset it."""
    if len(conversation_ids) == 1:
        # A single unknown conversation is an error; of many, unknown ones are ignored.
        get_conversation(caller=caller, conversation_id=conversation_ids[0])
    rows = Conversation.objects.filter(archive_id=caller.archive_id, pk__in=conversation_ids)
    rows.filter(**{f"{field}__isnull": is_set}).update(**{field: timezone.now() if is_set else None})
    return list(conversation_ids)


def archive_all(*, caller: Caller, conversation_ids: Sequence[int], archived: bool) -> list[int]:
    """Archive the caller's conversations among the ids, or unarchive them; returns the changed ones."""
    of_caller = own_conversations(caller=caller, conversation_ids=conversation_ids)
    rows = Conversation.objects.filter(archive_id=caller.archive_id, pk__in=of_caller, archived_at__isnull=archived)
    changed = list(rows.order_by("pk").values_list("pk", flat=True))
    values = {"archived_at": timezone.now() if archived else None}
    for number in changed:
        ingest.change_conversation(caller=caller, conversation_id=number, values=values)
    return changed


def delete_all(*, caller: Caller, conversation_ids: Sequence[int]) -> list[int]:
    """Put the caller's conversations among the ids into the trash, or delete them for good; returns their ids.

    Raises: OnLegalHold if one is held; then none is deleted.
    """
    chosen = own_conversations(caller=caller, conversation_ids=conversation_ids)
    refuse_held(archive_id=caller.archive_id, conversation_ids=chosen)
    for number in chosen:
        ingest.delete_conversation(caller=caller, conversation_id=number)
    return chosen


def restore_all(*, caller: Caller, conversation_ids: Sequence[int]) -> list[int]:
    """Take those of the ids that are in the caller's trash out of it; returns them. Raises: InvalidInput."""
    if len(conversation_ids) > MAX_CHOSEN:
        raise InvalidInput(f"At most {MAX_CHOSEN} conversations are changed at once.")
    rows = Conversation.with_trash.filter(
        archive_id=caller.archive_id, trashed_at__gt=last_expired(), pk__in=conversation_ids
    )
    numbers = list(rows.order_by("pk").values_list("pk", flat=True))
    for number in numbers:
        ingest.restore_conversation(caller=caller, conversation_id=number)
    return numbers


def add_tag(*, caller: Caller, conversation_ids: Sequence[int], name: str) -> list[int]:
    """Add the tag to the caller's conversations among the ids; returns those that did not have it.

    Raises: InvalidInput.
    """
    word = clean_tag(name)
    if not word:
        raise InvalidInput("A tag cannot be empty: write at least one character.")
    with transaction.atomic():
        chosen = own_conversations(caller=caller, conversation_ids=conversation_ids)
        tags = Tag.objects.filter(archive_id=caller.archive_id, conversation_id__in=chosen)
        have = set(tags.filter(name=word).values_list("conversation_id", flat=True))
        counts = tags.values_list("conversation_id").annotate(count=Count("pk"))
        if full := [number for number, count in counts if count >= MAX_TAGS and number not in have]:
            raise InvalidInput(
                f"A conversation has at most {MAX_TAGS} tags; take one off first ({len(full)} are full)."
            )
        missing = [number for number in chosen if number not in have]
        rows = [Tag(archive_id=caller.archive_id, conversation_id=number, name=word) for number in missing]
        Tag.objects.bulk_create(rows, ignore_conflicts=True)
    return missing


def remove_tag(*, caller: Caller, conversation_ids: Sequence[int], name: str) -> list[int]:
    """Remove the tag from the caller's conversations among the ids; returns the ids."""
    chosen = list(conversation_ids[:MAX_CHOSEN])
    Tag.objects.filter(archive_id=caller.archive_id, conversation_id__in=chosen, name=clean_tag(name)).delete()
    return chosen


def clean_tag(name: str) -> str:
    """Return the tag as it is stored: one line, without a leading "#"."""
    return one_line(storable(name).strip().lstrip("#"), TAG_CHARS)


def tags_of(*, caller: Caller, conversation_ids: Iterable[int]) -> dict[int, list[str]]:
    """Return the tags of the caller's conversations, in alphabetical order, by conversation. One query."""
    rows = Tag.objects.filter(archive_id=caller.archive_id, conversation_id__in=list(conversation_ids)).order_by("name")
    names: dict[int, list[str]] = {}
    for number, name in rows.values_list("conversation_id", "name"):
        names.setdefault(number, []).append(name)
    return names


def tag_counts(*, caller: Caller) -> list[tuple[str, int]]:
    """Return the caller's tags with the number of their conversations, the most used first."""
    tags = Tag.objects.filter(outside_trash("conversation"), archive_id=caller.archive_id)
    rows = tags.values_list("name").annotate(count=Count("pk"))
    return list(rows.order_by("-count", "name")[:TAGS_LISTED])


def own_conversations(*, caller: Caller, conversation_ids: Sequence[int]) -> list[int]:
    """Return the ids that are the caller's conversations. Raises: InvalidInput if there are too many."""
    if len(conversation_ids) > MAX_CHOSEN:
        raise InvalidInput(f"At most {MAX_CHOSEN} conversations are changed at once.")
    of_caller = Conversation.objects.filter(archive_id=caller.archive_id, pk__in=conversation_ids).order_by("pk")
    return list(of_caller.values_list("pk", flat=True))
