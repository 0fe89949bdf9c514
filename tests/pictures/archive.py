"""Data of the pictures: sample conversations with stars and tags, a document, an import, an agent and a summary.

`prepare` and `complete` run in the installation, through `manage.py shell`.
"""

import json
import random
from datetime import timedelta

from django.contrib.auth.models import Permission, User
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import Membership
from convmemory.accounts.space_invitations import invitations_of_space, invite_by_link, path_of
from convmemory.accounts.spaces import create_space
from convmemory.chat.models import Agent
from convmemory.conversations import curating
from convmemory.conversations.importing.models import Import
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from convmemory.ops.dashboard_tasks import map_turns, sample_index
from convmemory.ops.models import IndexSample
from convmemory.sign_in.sessions.models import Session
from search.models import ItemEmbedding
from tests.factories import add_member
from tests.pictures.visitors import NEWCOMER, OWNER, PASSWORD

CODING, READING = "sample-billing-deadlock", "sample-explain-hnsw"
OTHER_BROWSERS = ("Mozilla/5.0 (iPhone) Safari/604.1", "Mozilla/5.0 (Windows NT 10.0) Firefox/140.0")
TAGGED = {"sample-billing-deadlock": "postgres", "sample-flaky-ci-pipeline": "ci", "sample-jwt-login": "security"}


def prepare() -> None:
    """Accounts, marks and an agent; prints the ids that pages are asked by."""
    owner = User.objects.get(username=OWNER)
    owner.set_password(PASSWORD)
    owner.save()
    owner.user_permissions.add(Permission.objects.get(codename="read_content"))
    User.objects.create_user(NEWCOMER, password=PASSWORD)
    numbers = dict(Conversation.objects.filter(archive_id=owner.pk).values_list("source_id", "pk"))
    for name, tag in TAGGED.items():
        curating.add_tag(caller=Caller.of(owner), conversation_ids=[numbers[name]], name=tag)
    curating.set_star(caller=Caller.of(owner), conversation_id=numbers[CODING], starred=True)
    curating.set_pin(caller=Caller.of(owner), conversation_id=numbers[READING], pinned=True)
    Agent.objects.create(
        archive_id=owner.pk, name="Librarian", model="llama3.1:8b", tools=["search_chat_history", "read_conversation"],
        system_prompt="Answer from the archive, and name the turn that you rely on.",
    )  # fmt: skip
    space = create_space(person=owner, name="Waterworks")
    add_member(person=owner, space_id=space.pk, username=NEWCOMER, role=Membership.Role.READER)
    newcomer = User.objects.get(username=NEWCOMER)
    with acting_for(newcomer.pk):
        club = create_space(person=newcomer, name="Rowing club")
        invite_by_link(person=newcomer, space_id=club.pk, address="", role=Membership.Role.CONTRIBUTOR)
        (invitation,) = invitations_of_space(person=newcomer, space_id=club.pk)
        joining = path_of(invitation).rpartition("/")[2]
    for number, user_agent in enumerate(OTHER_BROWSERS, start=1):
        now = timezone.now()
        Session.objects.create(
            session_key=f"browser-{number}",
            person=owner,
            user_agent=user_agent,
            signed_in_at=now - timedelta(days=3 * number),
            seen_at=now - timedelta(hours=5 * number),
            expire_date=now + timedelta(days=9),
        )
    print(json.dumps({"coding": numbers[CODING], "reading": numbers[READING], "space": space.pk, "joining": joining}))


def complete() -> None:
    """Store samples and maps, which need a complete index, and print more ids."""
    owner = User.objects.get(username=OWNER)
    sample_index()
    _earlier_samples()
    map_turns(owner.pk)
    imported = Import.objects.filter(archive_id=owner.pk).latest("pk")
    embedding = ItemEmbedding.objects.filter(archive_id=owner.pk).order_by("pk")[20]
    print(json.dumps({"import": imported.pk, "embedding": embedding.pk}))


def _earlier_samples() -> None:
    """Samples of the hours before, as a worker that has run for a while leaves them."""
    latest, chance = IndexSample.objects.latest("taken_at"), random.Random(7)
    for back in range(1, 48):
        waiting = max(0, 9 * (back - 30)) + chance.randrange(3)
        row = IndexSample.objects.get(pk=latest.pk)
        row.pk, row.pending, row.queued = None, waiting, waiting // 4
        row.save()
        IndexSample.objects.filter(pk=row.pk).update(taken_at=latest.taken_at - timedelta(minutes=10 * back))
