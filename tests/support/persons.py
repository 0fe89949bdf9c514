"""A person with a row in every table that can hold one, for tests of export and erasure.

Known tables are filled through the product's own use cases; any other model gets a made-up row, so that
a new model is covered on the day it is added.
"""

import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.contrib.postgres.fields import ArrayField
from django.db import connection, models
from django.test import Client
from django.utils import timezone
from django_q.models import Task
from pgvector.django import HalfVectorField

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.accounts.models import Archive, LegalHold
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, EventDraft, MessageDraft
from convmemory.conversations.messages.parts import AttachmentPart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from convmemory.core.queue.fair_queue import enqueue
from convmemory.embeddings.spaces import active_space
from convmemory.ops.privacy.ownership import OwnedTable, owned_tables
from search.adapters.conversations import index_conversation
from tests.factories import NEW_YEAR, assistant_says, exchange, make_conversation, source_id, user_says


def fill_person(user: User, marker: str) -> list[Conversation]:
    """Give the person rows that hold `marker` in every owned table; their conversations."""
    conversations = _conversations(user, marker)
    for conversation in conversations:
        index_conversation(conversation_id=conversation.pk)
    _account(user, marker, conversations[0])
    for table in reversed(owned_tables()):
        if not rows_of(table, user):
            _made_up(table.model, user, marker).save(force_insert=True)
    return conversations


def rows_of(table: OwnedTable, owner: User | Archive) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table.name} WHERE {table.condition}", {"owner": owner.pk})
        (count,) = cursor.fetchone()
    return int(count)


def tables_with(words: list[str]) -> dict[str, int]:
    """Return the number of rows of each table that contain one of the words, in any column, also as bytes."""
    found = {}
    patterns = [f"%{word}%" for word in words] + [f"%{word.encode().hex()}%" for word in words]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_type = 'BASE TABLE'"
        )
        for schema, name in cursor.fetchall():
            place = name if schema == "public" else f"{schema}.{name}"
            cursor.execute(f'SELECT count(*) FROM "{schema}"."{name}" AS t WHERE t::text ILIKE ANY(%s)', [patterns])
            (found[place],) = cursor.fetchone()
    return {name: count for name, count in found.items() if count}


def _conversations(user: User, marker: str) -> list[Conversation]:
    everything = ConversationDraft(
        messages=_messages(marker),
        source="claude-code",
        source_id=f"session-{marker}",
        title=f"Trip {marker}",
        agent=f"agent {marker}",
        project=f"/home/{marker}",
        created_at=NEW_YEAR,
        archived=True,
        events=[EventDraft(4, "tool:pre", "info", "Bash", 0, NEW_YEAR, {"command": f"ls {marker}"})],
    )
    result = ingest.sync_conversation(caller=Caller.of(user), draft=everything)
    child = ConversationDraft(
        messages=exchange((f"who is {marker}?", "A subagent's guess.")),
        source="claude-code",
        source_id=f"child-{marker}",
        parent_source_id=f"session-{marker}",
        created_at=NEW_YEAR,
    )
    ingest.sync_conversation(caller=Caller.of(user), draft=child)
    plain = make_conversation(user, [user_says(f"the {marker} recipe"), assistant_says("Flour, water, salt.")])
    make_conversation(user, exchange(("the same text of everybody", "and its answer")))
    return [
        Conversation.objects.get(pk=result.conversation_id),
        plain,
        *Conversation.objects.filter(archive_id=user.pk).exclude(pk=plain.pk),
    ]


def _messages(marker: str) -> Iterator[MessageDraft]:
    yield MessageDraft(
        "user",
        (TextPart(f"Where is {marker}?"), AttachmentPart(f"{marker}.png", "image/png", 12, f"a map of {marker}")),
        name=f"Ada {marker}",
        created_at=NEW_YEAR,
        source_key="one",
        raw=f"raw {marker}".encode(),
    )
    call = ToolCallPart("t1", "Bash", {"command": f"find {marker}", "nested": {"deep": [1, 2.5, None, True]}})
    yield MessageDraft(
        "assistant", (ThinkingPart(f"hm, {marker}"), call), model="some-model", source_key="two", raw=b"\x00\xff"
    )
    yield MessageDraft("user", (ToolResultPart("t1", f"found {marker}", "Bash", True),), source_key="three")
    yield MessageDraft("user", (TextPart("<reminder>"),), source_key="four", injected=True)
    yield MessageDraft("assistant", (TextPart(f"{marker} is in **Lima**."),), source_key="five")
    yield MessageDraft("user", (TextPart("And now, unanswered?"),), source_key="six")


def _account(user: User, marker: str, conversation: Conversation) -> None:
    User.objects.filter(pk=user.pk).update(first_name=marker, email=f"{marker}@example.org")
    create_key(person=user, name=f"key of {marker}")
    LegalHold.objects.create(archive_id=user.pk, reason=f"claim of {marker}", lifted_at=timezone.now())
    Client().force_login(user)
    user.groups.add(Group.objects.get_or_create(name="readers")[0])
    user.user_permissions.add(Permission.objects.order_by("pk")[0])
    kind = ContentType.objects.get_for_model(Conversation)
    for actor in (user, User.objects.exclude(pk=user.pk).order_by("pk").first() or user):
        LogEntry.objects.create(
            user=actor, content_type=kind, object_id=str(conversation.pk), object_repr=marker, action_flag=CHANGE
        )
    enqueue("convmemory.ops.dashboard_tasks.map_turns", user.pk, group="dashboard")
    now = timezone.now()
    Task.objects.create(
        id=uuid.uuid4().hex, name="done", func="search.tasks.index", args=(source_id(conversation),), kwargs={},
        result=f"failed on {marker}", started=now, stopped=now, success=False,
    )  # fmt: skip


def _made_up(model: type[models.Model], user: User, marker: str) -> models.Model:
    values = {}
    for field in model._meta.local_concrete_fields:
        is_given = field.has_default() and not isinstance(field, models.FileField)
        if field.column and not field.null and not (is_given or isinstance(field, models.AutoField)):
            values[field.attname] = _value(field, user, marker)
    return model(**values)


def _value(field: Any, user: User, marker: str) -> Any:
    if field.choices:
        return next(iter(field.flatchoices))[0]
    if isinstance(field, models.ForeignKey):
        return _referenced(field.related_model, user)
    kinds: list[tuple[type, Any]] = [
        (models.JSONField, {"text": marker}),
        (models.DateTimeField, timezone.now()),
        (models.DateField, timezone.now().date()),
        (models.BooleanField, True),
        (models.IntegerField, 1),
        (models.FloatField, 0.5),
        (models.DecimalField, Decimal(1)),
        (models.UUIDField, uuid.uuid4()),
        (models.FileField, f"upload-{marker}"),
        (models.BinaryField, marker.encode()),
        (HalfVectorField, np.zeros(active_space().dimensions)),
        (ArrayField, []),
        (models.CharField, marker[: field.max_length or None] if isinstance(marker, str) else ""),
        (models.TextField, marker),
    ]
    for kind, value in kinds:
        if isinstance(field, kind):
            return value
    raise AssertionError(f"tests/support/persons.py has no made-up value for {field}: add one")


def _referenced(model: type[models.Model], user: User) -> Any:
    table = next((table for table in owned_tables() if table.model is model), None)
    condition = table.condition if table else "TRUE"
    with connection.cursor() as cursor:
        name, pk = model._meta.db_table, model._meta.pk.column
        cursor.execute(f'SELECT "{pk}" FROM "{name}" WHERE {condition} LIMIT 1', {"owner": user.pk})
        row = cursor.fetchone()
    assert row, f"no row of {model._meta.label} that a made-up row could name"
    return row[0]
