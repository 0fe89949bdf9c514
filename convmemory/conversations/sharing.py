"""Share links: makes, lists, revokes and opens links that show one conversation, or one turn of it, to other people.

A token has 192 random bits and is looked up by its hash: the time of a look-up tells nothing about tokens. It is stored
encrypted, so that its owner can copy the link again. Who opens a link acts for its owner while that conversation is
read. Source: docs/adr/0102-share-links.md.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext

from convmemory.accounts.auditing import Action, record, record_repeatable
from convmemory.accounts.callers import Caller
from convmemory.accounts.models import ShareLink
from convmemory.conversations.exports.formats import FORMATS, each_within, exported
from convmemory.conversations.exports.html_page import HtmlWriter
from convmemory.conversations.exports.selection import ExportSelection
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.pages.pictures import picture_of
from convmemory.conversations.reading import get_conversation, opening_of_turn
from convmemory.core.acting import acting_for
from convmemory.core.config import config
from convmemory.core.encryption import decrypt, encrypt
from convmemory.core.errors import ConvMemoryError, InvalidInput, NotAllowed, NotFound, SwitchedOff
from convmemory.core.sql import load_sql
from convmemory.core.text import content_hash

Audience = Literal["people", "anybody"]
MAX_DAYS = 36_500  # a hundred years
KEPT_AFTER_END = timedelta(days=30)
GONE = "The link is wrong, was revoked, or has expired."


class SignInNeeded(ConvMemoryError):
    """The link is for people who are signed in."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A share link as its owner sees it, with the server's settings applied.

    `turn` is the number of the only turn that it shows. `is_empty`: the conversation or the turn is not there now, and
    the link does not open.
    """

    id: int
    conversation_id: int
    conversation_title: str
    turn: int | None
    audience: Audience
    created_at: datetime
    ends_at: datetime | None
    is_empty: bool
    opened_count: int
    last_opened_at: datetime | None
    token: str = ""  # "" of links that were made before tokens were stored, or with another SECRET_KEY

    @property
    def is_expired(self) -> bool:
        return self.ends_at is not None and self.ends_at <= timezone.now()


@transaction.atomic
def create_link(
    *, caller: Caller, conversation_id: int, turn: int | None, days: int | None, audience: Audience
) -> tuple[Shared, str]:
    """Return a new link to the caller's conversation, or to one turn of it, and its token.

    It shows the messages that are stored now. Raises: NotFound, InvalidInput, SwitchedOff.
    """
    if config.sharing == "off":
        raise SwitchedOff("Sharing is off on this server: its operator turns it on with SHARING.")
    if audience == "anybody" and config.sharing == "people":
        raise InvalidInput("On this server links are for people who are signed in: share with people.")
    most = config.sharing_max_days or MAX_DAYS
    if days is None and config.sharing_max_days:
        raise InvalidInput(f"On this server a link works for {most:,} days at most: say for how many.")
    if days is not None and not 1 <= days <= most:
        raise InvalidInput(f"A link cannot work for {days} days: use 1 to {most:,}.")
    if caller.space:
        raise NotAllowed("A conversation of a space cannot be shared by a link: copy it to your own archive first.")
    conversation = get_conversation(caller=caller, conversation_id=conversation_id)
    opening = None if turn is None else opening_of_turn(conversation, turn)
    last_message = conversation.messages.order_by("-pk").first()
    if last_message is None:
        raise InvalidInput(f"Conversation {conversation_id} has no messages: a link to it would show nothing.")
    forgotten = timezone.now() - KEPT_AFTER_END
    ShareLink.objects.filter(archive_id=caller.archive_id, expires_at__lt=forgotten).delete()
    token = secrets.token_urlsafe(24)
    link = ShareLink.objects.create(
        archive_id=caller.archive_id,
        token_hash=content_hash(token),
        token_encrypted=encrypt(token),
        conversation_id=conversation.pk,
        opening_message_id=opening.pk if opening else None,
        last_message_id=last_message.pk,
        people_only=audience == "people",
        expires_at=None if days is None else timezone.now() + timedelta(days=days),
    )
    record(Action.MADE, what=f"share link {link.pk}", person_id=caller.person_id, about_id=caller.archive_id)
    return next(_as_shared([link], archive_id=caller.archive_id)), token


def links_of(*, caller: Caller, conversation_id: int | None = None) -> list[Shared]:
    """Return the caller's links, or those to one conversation, newest first."""
    links = ShareLink.objects.filter(archive_id=caller.archive_id).order_by("-pk")
    if conversation_id is not None:
        links = links.filter(conversation_id=conversation_id)
    return list(_as_shared(list(links), archive_id=caller.archive_id))


def _as_shared(links: Sequence[ShareLink], *, archive_id: int) -> Iterator[Shared]:
    """Yield the owner's links with what they show. Two queries."""
    ids, openings = {link.conversation_id for link in links}, {link.opening_message_id or 0 for link in links}
    conversations = Conversation.objects.filter(archive_id=archive_id, pk__in=ids)
    titles = dict(conversations.values_list("pk", "title"))
    messages = Message.objects.filter(archive_id=archive_id, pk__in=openings, turn_number__isnull=False)
    turns = dict(messages.values_list("pk", "turn_number"))
    for link in links:
        turn = turns.get(link.opening_message_id or 0)
        ends = [link.expires_at] if link.expires_at else []
        if config.sharing_max_days:
            ends.append(link.created_at + timedelta(days=config.sharing_max_days))
        yield Shared(
            id=link.pk,
            conversation_id=link.conversation_id,
            conversation_title=titles.get(link.conversation_id, ""),
            turn=turn,
            audience="people" if link.people_only or config.sharing == "people" else "anybody",
            created_at=link.created_at,
            ends_at=min(ends, default=None),
            is_empty=link.conversation_id not in titles or (link.opening_message_id is not None and turn is None),
            opened_count=link.opened_count,
            last_opened_at=link.last_opened_at,
            token=decrypt(link.token_encrypted) or "",
        )


def link_of(*, caller: Caller, link_id: int) -> Shared:
    """Return one of the caller's links. Raises: NotFound."""
    shared = next((each for each in links_of(caller=caller) if each.id == link_id), None)
    if shared is None:
        raise NotFound(f"There is no shared link {link_id}.")
    return shared


@transaction.atomic
def revoke_link(*, caller: Caller, link_id: int) -> None:
    """Revoke one of the caller's links: it opens no more. Raises: NotFound."""
    if not ShareLink.objects.filter(archive_id=caller.archive_id, pk=link_id).delete()[0]:
        raise NotFound(f"There is no shared link {link_id}.")
    record(Action.REVOKED, what=f"share link {link_id}", person_id=caller.person_id, about_id=caller.archive_id)


def open_link(token: str, *, visitor_id: int | None, is_counted: bool = True) -> Iterator[str]:
    """Return the HTML page of what the link shows, in pieces; its opening is counted before, unless only the head of
    the answer is read. The audit log has both, of visitors other than the owner.

    Raises: NotFound with one and the same sentence for links that are wrong, revoked, expired or without a
    conversation; SwitchedOff; SignInNeeded.
    """
    if config.sharing == "off":
        raise SwitchedOff("Sharing is off on this server.")
    digest = content_hash(token)
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.accounts", "owner_of_share_link"), [digest])
        (archive_id,) = cursor.fetchone()
    if archive_id is None:
        raise NotFound(GONE)
    with acting_for(archive_id):
        link = ShareLink.objects.select_related("archive").filter(archive_id=archive_id, token_hash=digest).first()
        shared = next(_as_shared([link], archive_id=archive_id)) if link else None
        if link is None or shared is None or shared.is_expired or shared.is_empty:
            raise NotFound(GONE)
        chosen = Q(pk__lte=link.last_message_id)
        if link.opening_message_id is not None:
            chosen &= Q(turn_number=shared.turn)
        if shared.audience == "people" and visitor_id is None:
            raise SignInNeeded("Sign in to open this link.")
        if is_counted:
            ShareLink.objects.filter(archive_id=archive_id, pk=link.pk).update(
                opened_count=F("opened_count") + 1, last_opened_at=timezone.now()
            )
        person = User.objects.get(pk=archive_id)
        name = person.get_full_name() or person.get_username()
        values = {"name": name, "date": date_format(link.created_at)}
        if shared.turn is None:
            note = gettext("Shared by %(name)s on %(date)s. Messages that were added later are not shown.")
        else:
            note = gettext("One turn, shared by %(name)s on %(date)s. Messages that were added later are not shown.")
        caller = Caller.for_archive(archive_id)
        pictures = partial(picture_of, caller=caller, conversation_id=link.conversation_id)
        writer = partial(
            HtmlWriter, title=gettext("Shared conversation"), note=note % values, person=name, pictures=pictures
        )
        pieces = exported(
            caller=caller,
            selection=ExportSelection(ids=(link.conversation_id,), messages=chosen, is_for_others=True),
            format=replace(FORMATS["html"], writer=writer),
        )
    if visitor_id != archive_id:  # outside the block: the visitor acts, not the owner
        what = f"conversation {link.conversation_id} by share link {link.pk}"
        record_repeatable(
            Action.READ, what=what if is_counted else f"head of share link {link.pk}", about_id=archive_id
        )
    return each_within(partial(acting_for, archive_id), pieces)  # read for the owner
