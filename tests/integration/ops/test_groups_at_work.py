"""Work of staff and commands while owners are spread over groups as on a cluster, with the product's own log-ins."""

import json
import re
import zipfile
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from convmemory.accounts.callers import Access, Caller, SpaceName
from convmemory.accounts.spaces import create_space
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.conversations.messages.storage_quota import NOTHING, Amounts, use_of_storage
from convmemory.conversations.models import Conversation, Message, StoredUse
from convmemory.core.acting import acting_for, in_archive_of, maintenance, schema_owner
from convmemory.core.models import OwnerGroup, OwnerTask
from convmemory.core.postgres import groups
from convmemory.core.postgres.archives import for_all_archives
from convmemory.core.postgres.row_security import compare_owners_in_keys, keys_across_owners
from convmemory.core.queue.fair_queue import work
from convmemory.embeddings import spaces
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.moving.carrying import carry
from convmemory.ops.dashboard_tasks import map_turns, sample_index
from convmemory.ops.models import OwnArchive
from convmemory.ops.privacy.erasing import count_rows
from convmemory.ops.privacy.exporting import request_archive
from convmemory.ops.privacy.storage_sums import forget_person, reconcile_added
from convmemory.ops.tasks import enqueue_archive
from search.adapters.conversations import index_conversation
from search.indexing.status import index_status
from search.models import ItemEmbedding, PassageBlock
from search.searching import SearchQuery, search
from tests.factories import exchange, user_says
from tests.integration.ops.conftest import People
from tests.support.api import signed_in
from tests.support.groups import copies_alone
from tests.support.own_logins import own_logins
from tests.support.passages import stored_passages
from tests.support.persons import tables_with
from tests.support.tiny_bert import write_tiny_bert

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("shared_groups")]


@pytest.fixture(scope="module", autouse=True)
def in_copies_alone() -> Iterator[None]:
    with copies_alone():
        yield


@pytest.fixture(autouse=True)
def log_in_as_the_product(shared_groups: None) -> Iterator[None]:
    with own_logins():
        yield


def of_each_group(model: type[Model]) -> list[object]:
    """The key of one row of each group."""
    with maintenance():
        rows = model._default_manager.order_by("pk").values_list("pk", flat=True)
        return [pk for found in for_all_archives(lambda: list(rows[:1])) for pk in found]


def ask(statement: str) -> list[tuple[object, ...]]:
    with schema_owner(), connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def test_keys_of_every_group_compare_owners() -> None:
    ((guarded,),) = ask(
        "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND cardinality(conkey) = 2 "
        "AND connamespace = 'group_2'::regnamespace"
    )
    assert isinstance(guarded, int)
    assert guarded > 30
    assert keys_across_owners() == {}
    ask(
        "ALTER TABLE group_2.conversations_tag ADD CONSTRAINT plain FOREIGN KEY (conversation_id) "
        "REFERENCES group_2.conversations_conversation (id) DEFERRABLE INITIALLY DEFERRED"
    )
    assert list(keys_across_owners()) == ["group_2.conversations_tag.plain"]
    with schema_owner():
        compare_owners_in_keys()
    assert keys_across_owners() == {}


class TestStaff:
    @pytest.fixture
    def root(self) -> Client:
        with maintenance():
            user = User.objects.filter(username="root").first() or User.objects.create_superuser("root", password="x")
            user.user_permissions.add(Permission.objects.get(codename="read_content"))
            return signed_in(user)

    def test_every_list_of_administration_shows_every_group_and_every_row_has_its_page(self, root: Client) -> None:
        for model, options in admin.site._registry.items():
            name = f"{model._meta.app_label}_{model._meta.model_name}"
            page = root.get(reverse(f"admin:{name}_changelist"))
            assert page.status_code == 200, name
            if not groups.is_grouped(model):
                continue
            with maintenance():
                [counted] = re.findall(r'class="paginator">(.*?)</p>', page.content.decode(), re.DOTALL)
                count = re.sub(r"<(a|span).*?</\1>", "", counted).split()[0]  # without the links to other pages
                assert int(count) == model._default_manager.count(), name
            rows = of_each_group(model)
            assert len(rows) == 3, name
            for row in rows:
                assert root.get(reverse(f"admin:{name}_change", args=[row])).status_code == 200, name
                if hasattr(options, "content_view"):
                    assert root.post(reverse(f"admin:{name}_content", args=[row])).status_code == 200, name

    def test_dashboard_and_maps_show_people_of_every_group(self, root: Client, people: People) -> None:
        with maintenance():
            turns = sum(
                index_status(caller=Caller.of(User.objects.get(pk=archive_id))).turns for archive_id in people.values()
            )
            assert sample_index()["turns"] == turns
        assert root.get(reverse("dashboard")).status_code == 200
        for name, archive_id in people.items():
            with maintenance():
                points = map_turns(archive_id)["points"]
            shown = root.post(reverse("turn-map", query={"owner": name})).content.decode()
            assert f"zq{name}" in shown
            assert shown.count('r="5"') == points


class TestCommands:
    def test_archives_hold_all_rows_of_their_owner(self, people: People, tmp_path: Path) -> None:
        with maintenance():
            OwnArchive.objects.all().delete()
        for name, archive_id in people.items():
            with maintenance():
                rows = count_rows(User.objects.get(pk=archive_id))
                call_command("export_user", name, str(tmp_path / f"{name}.zip"), stdout=StringIO())
            assert self._rows_in(tmp_path / f"{name}.zip") == rows
            with acting_for(archive_id):
                enqueue_archive(request_archive(caller=Caller.of(User.objects.get(pk=archive_id))))
        with maintenance():
            while work():
                pass
            states = list(OwnArchive.objects.values_list("state", flat=True))
        assert states == [OwnArchive.State.DONE] * len(people)

    def _rows_in(self, path: Path) -> dict[str, int]:
        with zipfile.ZipFile(path) as archive:
            tables = json.loads(archive.read("manifest.json"))["tables"]
        return {name: table["rows"] for name, table in tables.items() if table["rows"]}

    def test_another_model_takes_over_in_every_group(
        self, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("convmemory.ops.reembed.changing_over.GRACE_S", 0)  # no search is under way
        with maintenance():
            OwnerTask.objects.all().delete()
            old = spaces.active_space()
            before = {owner: self._embedded(owner, old) for owner in people.values()}
            self._reembed("--model", str(write_tiny_bert(tmp_path / "new", seed=2, dimensions=64)), "--workers", "1")
            new = spaces.active_space()
            assert new != old
            for archive_id, (passages, items) in before.items():
                assert self._embedded(archive_id, new)[0] == passages
                assert self._embedded(archive_id, new)[1] >= items > 0  # items without a vector before, too
        for name, archive_id in people.items():
            with acting_for(archive_id):
                assert search(
                    caller=Caller.of(User.objects.get(pk=archive_id)), query=SearchQuery(text=f"zq{name}")
                ).hits
        with maintenance():
            self._reembed("--prune", "--yes")
            assert not PassageBlock.objects.exclude(space=new).exists()
            assert self._embedded(people["ada"], new)[0] == before[people["ada"]][0]

    def _embedded(self, archive_id: int, space: EmbeddingSpace) -> tuple[int, int]:
        """Passages and vectors of items."""
        in_archive = {"archive_id": archive_id, "space": space}
        return len(stored_passages(is_kept=None, **in_archive)), ItemEmbedding.objects.filter(**in_archive).count()

    def _reembed(self, *arguments: str) -> None:
        call_command("reembed", *arguments, stdout=StringIO(), stderr=StringIO())

    def test_conversation_moves_into_another_group_and_back_with_its_vectors(self, people: People) -> None:
        with maintenance():
            bert = User.objects.get(pk=people["bert"])
            group_of = dict(OwnerGroup.objects.values_list("archive_id", "number"))
        space_id = next(made for _ in range(4) if group_of[bert.pk] != self._group_of(made := self._space(bert)))
        with acting_for(bert.pk):
            number = Conversation.objects.filter(archive_id=bert.pk, source_id="").order_by("pk")[0].pk
            index_conversation(conversation_id=number)
            passages = len(stored_passages(is_kept=None, archive_id=bert.pk))
            assert self._carry(bert, number, space_id) == number
            assert not Conversation.objects.filter(pk=number).exists()
        with acting_for(space_id, person_id=bert.pk):
            result = index_conversation(conversation_id=number)
            assert (result.items > 0, result.computed) == (True, 0)
            assert Conversation.objects.get(pk=number).message_count == Message.objects.count() > 0
        with acting_for(bert.pk):
            assert self._carry(bert, number, None) == number
            index_conversation(conversation_id=number)
            assert len(stored_passages(is_kept=None, archive_id=bert.pk)) == passages

    def test_additions_to_space_of_another_group_count_for_person(self, people: People) -> None:
        with maintenance():
            bert = User.objects.get(pk=people["bert"])
        rooms = [self._space(bert) for _ in range(4)]
        space_id = next(number for number in rooms if self._group_of(number) != self._group_of(bert.pk))
        with acting_for(space_id, person_id=bert.pk):
            caller = Caller.of(bert).at(Access(space_id, SpaceName(space_id, "Loft")))
            draft = ConversationDraft(messages=exchange(("Where is the oar?", "In the loft.")))
            made = ingest.create_conversation(caller=caller, draft=draft)
        added = self._added(bert)
        assert (added.size > 0, added.turns) == (True, 1)
        with maintenance():
            assert reconcile_added() == 0
            with in_archive_of(bert.pk):
                StoredUse.objects.filter(archive_id=bert.pk).update(added_bytes=5)
            assert (reconcile_added(), self._added(bert)) == (1, added)
            forget_person(bert.pk)
            assert Conversation.objects.get(pk=made.pk).additions == {}
            assert (reconcile_added(), self._added(bert)) == (1, NOTHING)
        with acting_for(space_id, person_id=bert.pk):
            ingest.append_messages(caller=caller, conversation_id=made.pk, drafts=[user_says("And?")])
            assert Conversation.objects.get(pk=made.pk).additions.keys() == {str(bert.pk)}
            ingest.delete_for_good(caller=caller, conversation_id=made.pk)
        assert self._added(bert) == NOTHING

    def _added(self, person: User) -> Amounts:
        with acting_for(person.pk):
            return use_of_storage(archive_id=person.pk).added

    def _space(self, person: User) -> int:
        with acting_for(person.pk):
            return create_space(person=person, name="Loft").pk

    def _group_of(self, archive_id: int) -> int:
        with maintenance():
            return OwnerGroup.objects.get(archive_id=archive_id).number

    def _carry(self, person: User, number: int, space_id: int | None) -> int:
        return carry(caller=Caller.of(person), kind="conversation", object_id=number, space_id=space_id, is_copy=False)

    def test_erase_user_command_erases_person_in_group(self, people: People) -> None:
        with maintenance():
            call_command("erase_user", "dora", "--yes", stdout=StringIO())
            assert tables_with(["zqdora"]) == {}
