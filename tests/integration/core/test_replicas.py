"""Read replicas: a real one, made by streaming replication, that is held up, killed and started again."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections, transaction
from pytest_django import Settings

from convmemory.conversations.filters import EVERYTHING
from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import page_of_conversations
from convmemory.core.acting import acting_for, maintenance
from convmemory.core.postgres import replicas
from convmemory.core.postgres.logins import replicas as parameters_of
from convmemory.core.postgres.replicas import may_use_replica
from convmemory.core.postgres.writers import WriteRecorder
from convmemory.ops.doctor.replicas_area import check_replicas
from search.adapters.conversations import index_conversation
from search.searching import SearchQuery, search
from tests.factories import exchange, make_conversation, make_user
from tests.support.installation import wait_until
from tests.support.own_logins import own_logins
from tests.support.replica import StreamingReplica, streaming_replica

if TYPE_CHECKING:
    from convmemory.core.postgres.base import DatabaseWrapper

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def replica(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamingReplica]:
    with streaming_replica(tmp_path_factory.mktemp("replica") / "copy") as replica:
        yield replica


@pytest.fixture
def people() -> tuple[int, int]:
    """Two owners, each with a conversation that can be found."""
    owners = make_user(), make_user()
    for owner in owners:
        conversation = make_conversation(owner, exchange(("where is the zebrafish lab?", "In Lima.")), title="mine")
        index_conversation(conversation_id=conversation.pk)
    return owners[0].pk, owners[1].pk


@pytest.fixture(autouse=True)
def reads_go_there(
    people: tuple[int, int], replica: StreamingReplica, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> Iterator[None]:
    for name in ("CONNECT_TIMEOUT_S", "POOL_PATIENCE_S"):
        monkeypatch.setattr(replicas, name, 60)  # however busy the machine is
    monkeypatch.setattr(replicas, "ASKED_AGAIN_S", 0.0)
    settings.DATABASE_REPLICA_MAX_LAG_MB = 100_000  # other runs write to the same server
    replica.catch_up()
    with own_logins(), replicas_in_use(replica):
        yield


@contextmanager
def replicas_in_use(replica: StreamingReplica) -> Iterator[None]:
    connection.settings_dict["REPLICAS"] = parameters_of([replica.url])
    wrapper = cast("DatabaseWrapper", connections["default"])
    wrapper._writers = WriteRecorder(wrapper)
    try:
        with connection.execute_wrapper(wrapper._writers.record):
            yield
    finally:
        wrapper._writers = None
        connection.settings_dict["REPLICAS"] = {}
        replicas._replicas.clear()


@may_use_replica
def answering() -> list[object]:
    """Return whether the replica answers, and the database role."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_is_in_recovery(), current_user::text")
        return list(cursor.fetchone())


def is_of_replica() -> bool:
    return bool(answering()[0])


@may_use_replica
def titles() -> list[str]:
    return sorted(Conversation.objects.values_list("title", flat=True))


def write_two_megabytes() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_logical_emit_message(false, 'test', repeat('x', 2000000))")


def caller(owner_id: int) -> User:
    return User.objects.get(pk=owner_id)


def rename(owner_id: int, title: str) -> None:
    Conversation.objects.filter(owner_id=owner_id).update(title=title)


def test_reads_of_person_go_to_replica_under_its_policies(people: tuple[int, int]) -> None:
    with acting_for(people[0]):
        assert answering() == [True, "convmemory_app"]
        assert titles() == ["mine"]  # one row of two
    assert answering() == [False, "convmemory_app"]  # without an owner
    with maintenance():
        assert answering() == [False, "convmemory_maintenance"]


def test_search_on_replica_finds_same(people: tuple[int, int]) -> None:
    owner = caller(people[0])
    with acting_for(owner.pk):
        query = SearchQuery(text="zebrafish lab")
        there = may_use_replica(lambda: (is_of_replica(), search(caller=owner, query=query)))()
        with transaction.atomic():
            here = search(caller=owner, query=query)
        rows, _ = page_of_conversations(owner=owner, filters=EVERYTHING, limit=10)
    assert there[0]
    assert there[1].hits == here.hits
    assert [hit.passage for hit in here.hits] == ["where is the zebrafish lab?"]
    assert len(rows) == 1


def test_person_reads_what_they_wrote_from_primary_until_replica_has_it(
    people: tuple[int, int], replica: StreamingReplica
) -> None:
    mine, others = people
    replica.pause()
    try:
        with acting_for(mine):
            rename(mine, "changed")
            assert (is_of_replica(), titles()) == (False, ["changed"])
        with acting_for(others):
            assert (is_of_replica(), titles()) == (True, ["mine"])
    finally:
        replica.resume()
    with acting_for(mine):
        wait_until(is_of_replica, "the replica", 60)
        assert titles() == ["changed"]


@pytest.mark.parametrize("is_undone", [True, False])
def test_write_is_noted_after_its_transaction_commits(
    people: tuple[int, int], replica: StreamingReplica, is_undone: bool
) -> None:
    mine, _ = people
    with acting_for(mine):
        with transaction.atomic():
            if not is_undone:
                rename(mine, "first")
            with transaction.atomic():
                rename(mine, "second")
                transaction.set_rollback(True)
            replica.pause()
        try:
            assert is_of_replica() == is_undone
            assert titles() == ["mine" if is_undone else "first"]
        finally:
            replica.resume()


def test_replica_over_maximum_lag_is_not_used(
    people: tuple[int, int], replica: StreamingReplica, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(replicas, "CHECKED_EVERY_S", 0.0)
    mine, others = people
    replica.pause()
    try:
        with acting_for(others):
            assert is_of_replica()
            with maintenance():
                write_two_megabytes()
            assert is_of_replica()
            settings.DATABASE_REPLICA_MAX_LAG_MB = 1
            assert not is_of_replica()
    finally:
        replica.resume()
    with acting_for(mine):
        wait_until(is_of_replica, "the replica", 60)


def found_by_doctor(url: str) -> list[str]:
    before = connection.settings_dict["REPLICAS"]
    connection.settings_dict["REPLICAS"] = parameters_of([url])
    try:
        with maintenance():
            return [finding.id for finding in check_replicas()]
    finally:
        connection.settings_dict["REPLICAS"] = before


def test_doctor_says_what_is_wrong_with_replica(replica: StreamingReplica, tmp_path: Path, settings: Settings) -> None:
    assert found_by_doctor(replica.url) == []
    assert found_by_doctor(replica.url.replace("//", "//postgres@")) == ["replicas.login-bypasses-row-security"]
    primary = replace(replica, folder=connection.settings_dict["EMBEDDED_PATH"])
    assert found_by_doctor(primary.url) == ["replicas.not-following"]
    assert found_by_doctor(replace(replica, folder=tmp_path).url) == ["replicas.unreachable"]
    settings.DATABASE_REPLICA_MAX_LAG_MB = 1
    replica.pause()
    try:
        with maintenance():
            write_two_megabytes()
        assert found_by_doctor(replica.url) == ["replicas.lagging"]
    finally:
        replica.resume()


def test_unexpected_write_moves_call_to_primary(people: tuple[int, int], replica: StreamingReplica) -> None:
    @may_use_replica
    def renaming() -> list[bool]:
        """Return whether the replica is used before the write, and after the replica has received it."""
        before = is_of_replica()
        rename(people[0], "changed")
        replica.catch_up()
        return [before, is_of_replica()]

    with acting_for(people[0]):
        assert renaming() == [False, False]
        assert is_of_replica()
        assert titles() == ["changed"]


def test_transaction_does_not_use_replica(people: tuple[int, int]) -> None:
    with acting_for(people[0]), transaction.atomic():
        assert not is_of_replica()


def test_killed_replica_is_skipped_and_used_again_after_restart(
    people: tuple[int, int], replica: StreamingReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = caller(people[0])
    with acting_for(owner.pk):
        assert is_of_replica()
        monkeypatch.setattr(replicas, "POOL_PATIENCE_S", 0.1)
        replica.kill()
        try:
            assert search(caller=owner, query=SearchQuery(text="zebrafish lab")).hits
            assert not is_of_replica()
        finally:
            replica.start()
        monkeypatch.setattr(replicas, "POOL_PATIENCE_S", 60)
        wait_until(is_of_replica, "the replica", 60)
