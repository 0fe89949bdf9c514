"""Rows and drafts for tests, made through the product's own use cases."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import count

from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import Archive, Membership
from convmemory.accounts.space_invitations import accept, invitations_of_caller, invite
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import TextPart
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for, in_archive_of
from search.models import Source

NEW_YEAR = datetime(2026, 1, 1, 12, tzinfo=UTC)
_numbers = count(1)


def make_user(name: str = "") -> User:
    return User.objects.create_user(name or f"user{next(_numbers)}", password="correct horse")


def add_member(*, person: User, space_id: int, username: str, role: str) -> Membership:
    """Make a user a member of a space that `person` manages: by an invitation, which the user accepts."""
    invite(person=person, space_id=space_id, username=username, role=role)
    user = User.objects.get(username=username)
    with acting_for(user.pk):
        (number,) = [invitation.id for invitation in invitations_of_caller() if invitation.space_id == space_id]
        return accept(person=user, invitation_id=number)


def user_says(text: str, **values: object) -> MessageDraft:
    return MessageDraft(role="user", parts=(TextPart(text),), **values)  # type: ignore[arg-type]


def assistant_says(text: str, **values: object) -> MessageDraft:
    return MessageDraft(role="assistant", parts=(TextPart(text),), **values)  # type: ignore[arg-type]


def exchange(*pairs: tuple[str, str]) -> list[MessageDraft]:
    """User and assistant messages, one pair a turn, with stable source keys."""
    drafts = []
    for number, (question, answer) in enumerate(pairs):
        drafts.append(user_says(question, source_key=f"u{number}"))
        drafts.append(assistant_says(answer, source_key=f"a{number}"))
    return drafts


def caller_for(owner: User | Archive) -> Caller:
    """Return who acts in a person's own archive or, with an archive, a worker there."""
    return Caller.of(owner) if isinstance(owner, User) else Caller.for_archive(owner.pk)


def make_conversation(owner: User | Archive, messages: Iterable[MessageDraft] = (), **values: object) -> Conversation:
    draft = ConversationDraft(messages=messages, created_at=NEW_YEAR, **values)  # type: ignore[arg-type]
    with in_archive_of(owner.pk):
        return ingest.create_conversation(caller=caller_for(owner), draft=draft)


def source_id(conversation: Conversation) -> int:
    """The number of the conversation's source in the index."""
    return Source.objects.get(archive_id=conversation.archive_id, kind="conversation", object_id=conversation.pk).pk
