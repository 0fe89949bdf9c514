"""The doctor finds each planted fault by its id, names the remedy, and puts right what is safe."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import cache
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from django_q.models import Schedule, Task
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.tasks import send_mail
from convmemory.conversations.messages import responses
from convmemory.conversations.models import Conversation
from convmemory.core import conf
from convmemory.core.models import OwnerTask
from convmemory.core.queue.fair_queue import enqueue
from convmemory.core.queue.retrying import EMBEDDING
from convmemory.documents.library import add_document, store_file
from convmemory.documents.models import Document
from convmemory.documents.storage import document_storage
from convmemory.embeddings import spaces
from convmemory.embeddings.default_model import default_folder
from convmemory.embeddings.model_folder import BERT_WEIGHTS, fresh_digest
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.ops.doctor import alerting, database_area, examining, models_area
from convmemory.ops.doctor.examining import Report, examine, fix
from convmemory.ops.doctor.findings import Finding, Severity
from convmemory.ops.doctor.models_area import remember_models
from convmemory.ops.models import RestoreCheck, SweepRun
from convmemory.ops.runtime import schedules
from convmemory.ops.runtime.instance import remember_key
from convmemory.ops.tasks import send_alerts
from memory.models import MessageEmbedding
from search.adapters.conversations import index_conversation
from search.models import Item, ItemEmbedding, PassageBlock, Source, SourceIndex
from search.ranking import reranking
from search.vectors.codes import short_bytes
from search.vectors.packing import ENTRY
from search.vectors.passages import move_passages
from tests.factories import caller_for, exchange, make_conversation, make_user, user_says
from tests.support.passages import stored_passages, take_passages
from tests.support.queue import drop_all
from tests.support.rerank_server import running_reranker
from tests.support.smtp_server import running_smtp_server
from tests.support.tiny_bert import write_tiny_bert

pytestmark = pytest.mark.django_db(transaction=True)

PAIRS = [("the cat sat?", "on the mat."), ("why, cat?", "the mat, the mat.")]
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def house(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A sound installation: a tiny model, one conversation, schedules, a sweep a moment ago."""
    folder = write_tiny_bert(tmp_path / "tiny")
    settings.EMBEDDING_MODEL_PATH = str(folder)
    settings.VAR_DIR = tmp_path
    settings.ALLOWED_HOSTS = ["localhost"]  # the test runner adds one
    monkeypatch.setattr(examining, "SHORT_BYTES", 0)
    monkeypatch.setattr(examining, "missing_parts", list)
    monkeypatch.setattr(models_area, "fresh_digest", digest_of)
    for _ in range(2):
        index_conversation(conversation_id=make_conversation(make_user(), exchange(*PAIRS)).pk)
    schedules.ensure_schedules()
    SweepRun.objects.create(started_at=timezone.now(), seconds=0)
    OwnerTask.objects.filter(archive=None).delete()
    yield folder
    spaces._opened.reset()


@cache
def default_digest() -> str:
    return fresh_digest([default_folder() / BERT_WEIGHTS])


def digest_of(paths: Sequence[Path]) -> str:
    """Digest files as the doctor does, but the default model's 90 MB, which no test changes, once for all tests."""
    return default_digest() if list(paths) == [default_folder() / BERT_WEIGHTS] else fresh_digest(paths)


def ids() -> list[str]:
    return [finding.id for finding in examine().findings]


def test_sound_installation_has_no_findings() -> None:
    report = examine()
    assert report.findings == []
    assert report.exit_code == 0
    assert set(report.facts) == {"settings", "database", "models", "indexes", "queue", "rows", "disk"}


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def invalid_index() -> None:
    execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'passage_block_owner'::regclass")


def dropped_index() -> None:
    execute("DROP INDEX item_embedding_newest")


def changed_weights(house: Path) -> None:
    weights = house / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")


def changed_tokenizer(house: Path) -> None:
    remember_models()
    tokenizer = house / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"cat"', '"dog"'))
    spaces._opened.reset()


def changed_pooling(house: Path) -> None:
    remember_models()
    pooling = house / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"word_embedding_dimension": 32, "pooling_mode_cls_token": True}))
    spaces._opened.reset()


def other_model_in_settings(settings: Settings) -> None:
    settings.EMBEDDING_MODEL_PATH = ""


def unreachable_model(settings: Settings) -> None:
    EmbeddingSpace.objects.update(model="gone@00000000", location="")


def dead_reranker(settings: Settings) -> None:
    settings.RERANK_URL = "http://127.0.0.1:9/rerank"


def abandoned_build() -> None:
    EmbeddingSpace.objects.create(provider="local", model="b@0", dimensions=8, recipe_version=1, is_building=True)


def retired_space() -> None:
    EmbeddingSpace.objects.create(provider="local", model="c@0", dimensions=8, recipe_version=1)


def rows_of_gone_turns() -> None:
    for source in Source.objects.all():
        with transaction.atomic():
            move_passages(source, {1: 9})


def stale_vector() -> None:
    ItemEmbedding.objects.filter(item_number=1).update(content_hash=b"other")


def lost_passages() -> None:
    for source in Source.objects.all():
        take_passages(source, spaces.active_space(), items=[1])


def lost_block() -> None:
    PassageBlock.objects.order_by("pk")[0].delete()


def lost_block_with_one_kept() -> None:
    """As of a conversation that came back from the trash and is not wholly indexed."""
    block = PassageBlock.objects.order_by("pk")[0]
    block.is_kept = True
    block.save()
    block.pk, block.is_kept, block.passages = None, False, 0
    block.save(force_insert=True)


def lost_codes_of_turns() -> None:
    block = PassageBlock.objects.order_by("pk")[0]
    block.entries = bytes(block.entries)[: block.passages * ENTRY.itemsize]
    block.codes = bytes(block.codes)[: block.passages * short_bytes(block.space.dimensions)]
    block.save()


def block_of_gone_turns() -> None:
    block = PassageBlock.objects.order_by("pk")[0]
    block.pk, block.number = None, 9
    block.save(force_insert=True)


def dead_writer() -> None:
    conversation = Conversation.objects.order_by("pk")[0]
    responses.begin_response(
        caller=caller_for(conversation.archive), conversation_id=conversation.pk, question=user_says("And now?")
    )
    Conversation.objects.filter(pk=conversation.pk).update(processing_until=timezone.now() - HOUR)


def given_up_conversation() -> None:
    state = SourceIndex.objects.filter(source__object_id=Conversation.objects.order_by("pk")[0].pk)
    state.update(error="The endpoint answered 401", attempts=EMBEDDING.max_attempts)


def failed_message() -> None:
    messages = MessageEmbedding.objects.filter(pk=MessageEmbedding.objects.order_by("pk")[0].pk)
    messages.update(status="failed", attempts=EMBEDDING.max_attempts, error="The endpoint answered 401")


def refused_turn() -> None:
    Item.objects.filter(number=1).update(error="too strange")
    ItemEmbedding.objects.filter(item_number=1).delete()
    for source in Source.objects.all():
        take_passages(source, spaces.active_space())


def missed_conversation() -> None:
    make_conversation(make_user(), exchange(*PAIRS))
    drop_all()


def source_of_older_layout() -> None:
    Source.objects.update(layout=Source.LAYOUT - 1)
    drop_all()


def no_worker() -> None:
    SweepRun.objects.update(started_at=timezone.now() - HOUR)
    Schedule.objects.update(next_run=timezone.now() - HOUR)


def missing_schedule() -> None:
    Schedule.objects.filter(name="deep sweep").delete()


def old_task() -> None:
    enqueue(schedules.SWEEP)
    OwnerTask.objects.filter(archive=None).update(due_at=timezone.now() - HOUR)


def failed_task() -> None:
    now = timezone.now()
    Task.objects.create(id="a" * 32, name="t", func="search.tasks.index", started=now, stopped=now, success=False)


def readable_secret(house: Path) -> None:
    (house.parent / "secret_key").write_text("secret")
    (house.parent / "secret_key").chmod(0o644)


def public_without_https(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["memory.example"]


def public_debugging(settings: Settings) -> None:
    settings.ALLOWED_HOSTS, settings.HTTPS_ONLY, settings.DEBUG = ["memory.example"], True, True


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "SHORT_BYTES", 2**62)
    monkeypatch.setattr(examining, "FULL_BYTES", 2**61)


def newest_migration() -> str:
    [(_, name)] = MigrationLoader(connection).graph.leaf_nodes("accounts")
    return str(name)


def unapplied_migration() -> None:
    MigrationRecorder(connection).record_unapplied("accounts", newest_migration())


def undo_unapplied_migration() -> None:
    MigrationRecorder(connection).record_applied("accounts", newest_migration())


def migration_of_newer_version() -> None:
    MigrationRecorder(connection).record_applied("search", "0999_engine_of_tomorrow")


def undo_migration_of_newer_version() -> None:
    MigrationRecorder(connection).record_unapplied("search", "0999_engine_of_tomorrow")


def undo_dropped_index() -> None:
    execute("CREATE INDEX IF NOT EXISTS item_embedding_newest ON search_itemembedding (owner_id, id)")


def a_model_of_english_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    space = spaces.active_space()
    monkeypatch.setattr(models_area, "ENGLISH_ALONE", frozenset({(space.provider, space.model)}))


def archive_in_german(monkeypatch: pytest.MonkeyPatch) -> None:
    a_model_of_english_alone(monkeypatch)
    Source.objects.filter(pk=Source.objects.earliest("pk").pk).update(languages="german")


def old_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "missing_parts", lambda: ["read the server's files"])


def document_with_changed_byte() -> None:
    owner = make_user()
    stored = store_file(archive_id=owner.pk, file=BytesIO(b"A note on sails."), name="sails.txt")
    document = add_document(caller=Caller.of(owner), stored=stored).document
    Document.objects.filter(pk=document.pk).update(status=Document.Status.READY)
    drop_all()
    path = Path(document_storage().path(str(document.file)))
    path.write_bytes(b"A note on snails"[: path.stat().st_size])


def another_secret_key(settings: Settings) -> None:
    remember_key()
    settings.SECRET_KEY = "another key, as on a machine that was set up by hand"


def slot_without_reader() -> None:
    execute("SELECT pg_create_physical_replication_slot('lost_reader', true)")


def undo_slot() -> None:
    execute("SELECT pg_drop_replication_slot('lost_reader')")


class Fault(NamedTuple):
    plant: Callable[..., None]
    found: set[str]
    remedy: str
    fixed: bool = False
    undo: Callable[[], None] | None = None


FAULTS = [
    Fault(invalid_index, {"indexes.invalid"}, "doctor --fix", fixed=True),
    Fault(dropped_index, {"indexes.missing"}, "doctor --fix", fixed=True, undo=undo_dropped_index),
    Fault(changed_weights, {"models.weights-changed"}, "Put the original file back"),
    Fault(changed_tokenizer, {"models.files-changed"}, "Put the original files back"),
    Fault(changed_pooling, {"models.files-changed"}, "copy the folder under another name"),
    Fault(other_model_in_settings, {"models.settings-differ"}, "set EMBEDDING_PROVIDER=local"),
    Fault(unreachable_model, {"models.unavailable", "models.settings-differ"}, "manage.py reembed"),
    Fault(dead_reranker, {"models.reranker-unavailable"}, "unset RERANK_URL"),
    Fault(abandoned_build, {"models.build-abandoned"}, "reembed --cancel"),
    Fault(retired_space, {"models.space-retired"}, "reembed --prune"),
    Fault(archive_in_german, {"models.language-unknown"}, "docs/models.md"),
    Fault(rows_of_gone_turns, {"rows.orphaned"}, "doctor --fix"),
    Fault(stale_vector, {"rows.stale"}, "manage.py reembed"),
    Fault(lost_passages, {"rows.passages-lost"}, "doctor --fix"),
    Fault(lost_block, {"rows.passages-lost"}, "doctor --fix"),
    Fault(lost_block_with_one_kept, {"rows.passages-lost"}, "doctor --fix"),
    Fault(lost_codes_of_turns, {"rows.passages-lost"}, "doctor --fix"),
    Fault(block_of_gone_turns, {"rows.passages-lost"}, "doctor --fix"),
    Fault(dead_writer, {"rows.stuck"}, "doctor --fix", fixed=True),
    Fault(given_up_conversation, {"rows.given-up"}, "reembed --only failed"),
    Fault(failed_message, {"rows.messages-failed"}, "memory/embed"),
    Fault(refused_turn, {"rows.refused"}, "reembed --only failed"),
    Fault(missed_conversation, {"rows.behind"}, "Check that workers are running", fixed=True),
    Fault(source_of_older_layout, {"rows.older-layout"}, "The sweep hands them to the workers", fixed=True),
    Fault(no_worker, {"queue.no-worker"}, "Start `manage.py up`"),
    Fault(missing_schedule, {"queue.schedule-missing"}, "manage.py worker", fixed=True),
    Fault(old_task, {"queue.waiting"}, "raise WORKERS"),
    Fault(failed_task, {"queue.failures"}, "worker's log"),
    Fault(readable_secret, {"settings.secret-readable"}, "chmod 600", fixed=True),
    Fault(public_without_https, {"settings.plain-http"}, "HTTPS_ONLY=1"),
    Fault(public_debugging, {"settings.debug"}, "Unset DEBUG"),
    Fault(old_kernel, {"settings.unconfined"}, "newer kernel"),
    Fault(document_with_changed_byte, {"rows.documents-changed"}, "from a backup"),
    Fault(another_secret_key, {"settings.other-key"}, "Set the earlier SECRET_KEY", fixed=True),
    Fault(slot_without_reader, {"database.slot-inactive"}, "pg_drop_replication_slot", undo=undo_slot),
    Fault(full_disk, {"disk.short"}, "Free some space"),
    Fault(unapplied_migration, {"database.unmigrated"}, "manage.py migrate", undo=undo_unapplied_migration),
    Fault(
        migration_of_newer_version,
        {"database.newer"},
        "Start the newer version",
        undo=undo_migration_of_newer_version,
    ),
]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.plant.__name__ for fault in FAULTS])
def test_planted_fault_is_found_with_its_remedy(fault: Fault, request: pytest.FixtureRequest) -> None:
    names = fault.plant.__annotations__.keys() - {"return"}
    try:
        fault.plant(**{name: request.getfixturevalue(name) for name in names})
        report = examine()
        assert {finding.id for finding in report.findings} == fault.found
        assert any(fault.remedy in finding.remedy for finding in report.findings)
        if fault.fixed:
            assert all("not fixed" not in line for line in fix(report))
            assert ids() == []
    finally:
        if fault.undo:
            fault.undo()


def test_foreign_language_is_finding_only_above_its_share_and_for_known_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    german = Source.objects.earliest("pk")
    Source.objects.filter(pk=german.pk).update(languages="german")
    assert ids() == []
    a_model_of_english_alone(monkeypatch)
    english = make_conversation(german.archive, exchange(*PAIRS)).pk
    index_conversation(conversation_id=english)
    assert "models.language-unknown" not in ids()
    Source.objects.filter(kind="conversation", object_id=english).update(item_count=german.item_count - 1)
    (finding,) = (one for one in examine().findings if one.id == "models.language-unknown")
    assert "(german)" in finding.message


def test_exit_code_is_that_of_worst_finding() -> None:
    retired_space()
    assert examine().exit_code == 0
    stale_vector()
    assert examine().exit_code == 1
    given_up_conversation()
    report = examine()
    assert report.exit_code == 2
    assert [finding.severity for finding in report.findings] == sorted(
        (finding.severity for finding in report.findings), reverse=True
    )


def test_orphaned_rows_are_deleted_and_missing_ones_rebuilt() -> None:
    rows_of_gone_turns()
    list(fix(examine()))
    assert {passage.item_number for passage in stored_passages(is_kept=None)} == {0}
    assert ids() == ["rows.passages-lost"]
    list(fix(examine()))
    for conversation in Conversation.objects.all():
        index_conversation(conversation_id=conversation.pk)
    assert ids() == []


@pytest.mark.parametrize("damage", [lost_codes_of_turns, block_of_gone_turns])
def test_damaged_blocks_are_repacked_without_embedding(damage: Callable[[], None]) -> None:
    damage()
    list(fix(examine()))
    for conversation in Conversation.objects.all():
        assert index_conversation(conversation_id=conversation.pk).computed == 0
    assert ids() == []


def test_failing_check_is_reported_and_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Iterator[Finding]:
        raise OSError("no such device")

    full = Finding("disk.short", Severity.ERROR, "", "")
    area = type(examining.DISK)("disk", examining.disk_facts, (broken, lambda: iter([full])))
    report = examine([area])
    assert [finding.id for finding in report.findings] == ["disk.unknown", "disk.short"]
    assert "no such device" in report.findings[0].message


def test_findings_are_mailed_when_new_and_when_they_end(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    User.objects.create_superuser("root", email="root@example.org")
    User.objects.create_superuser("silent")

    def mailed() -> list[str]:
        before = len(mailbox.messages)
        send_alerts()
        send_mail()
        return [f"{one['To']}: {one.get_content()}" for one in mailbox.messages[before:]]

    assert send_alerts() == {"found": [], "ended": []}, "without an SMTP server nothing is examined"
    with running_smtp_server(settings) as mailbox:
        assert mailed() == []
        stale_vector()
        [first] = mailed()
        assert first.startswith("root@example.org: ")
        assert "rows.stale: " in first
        assert mailed() == [], "it is known"
        given_up_conversation()
        settings.ALERT_EMAILS = ["ops@example.org", "night@example.org"]
        second = mailed()
        assert [one.partition(":")[0] for one in second] == ["ops@example.org", "night@example.org"]
        assert "rows.given-up: " in second[0]
        assert "rows.stale: " not in second[0]
        SourceIndex.objects.update(attempts=0, error="")
        unreachable = Finding("database.unreachable", Severity.ERROR, "It does not answer.", "Start it.")
        with monkeypatch.context() as patch:
            patch.setattr(alerting, "examine", lambda: Report(findings=[unreachable]))
            assert send_alerts() == {"found": ["database.unreachable"], "ended": []}, "nothing else was examined"
        last = mailed()[-1]
        assert "Well again: rows.given-up" in last
        assert "doctor --fix" not in last
        settings.ALERT_EMAILS = ["none"]
        given_up_conversation()
        assert mailed() == []


def test_reranker_that_answers_is_no_finding(settings: Settings) -> None:
    with running_reranker() as server:
        settings.RERANK_URL, settings.RERANK_API_KEY, settings.RERANK_TIMEOUT_S = server.url, server.key, 20.0
        assert ids() == []
        [asked] = server.requests
        assert len(asked["documents"]) == settings.RERANK_TOP_K
        settings.RERANK_API_KEY = "wrong key"
        [finding] = examine().findings
        assert (finding.id, finding.severity) == ("models.reranker-unavailable", Severity.WARNING)
        assert "set RERANK_API_KEY" in finding.message
        assert "wrong key" not in finding.message + finding.remedy
    reranking.close_connections()


def doctor(*arguments: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("doctor", *arguments, stdout=out)
    except SystemExit as ending:
        return int(str(ending.code)), out.getvalue()
    return 0, out.getvalue()


def test_command_prints_facts_findings_and_remedies(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_API_KEY", "very secret")
    conf.env_secret("EMBEDDING_API_KEY")
    stale_vector()
    code, text = doctor()
    assert code == 1
    assert "rows.stale" in text
    assert "→ Run `manage.py reembed`" in text
    assert "very secret" not in text
    assert settings.SECRET_KEY not in text
    facts = " ".join(text.split())
    assert f"EMBEDDING_API_KEY {conf.MASK}" in facts
    assert "TASK_TIMEOUT_S 600" in facts
    assert "very secret" not in doctor("--json")[1]


def test_doctor_json_lists_findings_and_fix_repairs_them() -> None:
    dead_writer()
    code, text = doctor("--json")
    document: dict[str, Any] = json.loads(text)
    assert code == 1
    [finding] = document["findings"]
    assert finding | {"message": "", "remedy": ""} == {
        "id": "rows.stuck", "severity": "warning", "message": "", "remedy": "", "fixable": True,
    }  # fmt: skip
    code, text = doctor("--json", "--fix")
    assert code == 0
    assert json.loads(text)["fixed"] == ["rows.stuck: 1 conversation taken back."]
    assert doctor("--quiet")[1].strip() == ""


def test_missing_and_old_backups_are_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings.BACKUP_FOLDER, settings.BACKUP_EVERY_H = str(tmp_path), 24
    monkeypatch.setitem(connection.settings_dict, "EMBEDDED_PATH", str(tmp_path))
    assert [finding.id for finding in examining.check_backups()] == ["disk.backups"]
    backup = tmp_path / "convmemory-20260101T000000.zip"
    backup.touch()
    assert not list(examining.check_backups())
    two_days_ago = (timezone.now() - 49 * HOUR).timestamp()
    os.utime(backup, (two_days_ago, two_days_ago))
    assert "no backup of the last 48 hours" in next(examining.check_backups()).message
    assert [finding.id for finding in examining.check_restores()] == ["disk.restore-check"]
    RestoreCheck.objects.create(checked_at=timezone.now() - 89 * 24 * HOUR)
    assert not list(examining.check_restores())
    monkeypatch.setitem(connection.settings_dict, "EMBEDDED_PATH", "")
    assert "has no effect" in next(examining.check_backups()).message


def test_outdated_statistics_are_renewed(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_area, "CHANGED_ROWS", 90)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")  # else the fixture's rows count as changed since
        cursor.execute("ANALYZE conversations_message")
    make_conversation(owner, exchange(*PAIRS * 25))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")  # else the server learns of changes a second later
    found = {finding.id: finding for finding in database_area.check_statistics()}
    finding = found["database.outdated-statistics"]
    assert "conversations_message (100 rows)" in finding.message
    assert finding.fix is not None
    finding.fix()
    assert "database.outdated-statistics" not in {finding.id for finding in database_area.check_statistics()}
