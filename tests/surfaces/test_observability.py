"""Health, readiness, request ids and metrics, over HTTP."""

import logging
import re
import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone
from django_q.signals import post_execute_in_worker, pre_execute
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller
from convmemory.accounts.models import AuditEntry
from convmemory.conversations.messages.ingest import append_messages
from convmemory.core import logs
from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.measuring import Measurement, report
from convmemory.core.queue import fair_queue
from convmemory.ops.models import Measure, RestoreCheck, SweepRun
from convmemory.ops.observability import measures
from search.adapters.conversations import index_conversation
from search.models import Source, SourceIndex
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.api import signed_in

pytestmark = pytest.mark.django_db


def values(client: Client, **headers: str) -> dict[tuple[str, str], float]:
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.content.decode())
    return {(s.name, "|".join(sorted(s.labels.values()))): s.value for family in families for s in family.samples}


@pytest.fixture(autouse=True)
def nothing_measured() -> None:
    measures.flush()
    Measure.objects.all().delete()


def test_metrics_are_off_unless_asked_for_and_closed_to_others(settings: Settings) -> None:
    staff, person = make_user(), make_user()
    staff.is_staff = True
    staff.save()
    clients = [Client(), Client(), Client()]
    clients[1].force_login(person)
    clients[2].force_login(staff)
    assert [client.get("/metrics").status_code for client in clients] == [404, 404, 404]
    assert clients[0].get("/metrics").content == b"Metrics are off: METRICS=1 turns them on.\n"
    settings.METRICS = True
    assert [client.get("/metrics").status_code for client in clients] == [401, 401, 200]
    assert Client().get("/metrics", headers={"Authorization": "Bearer "}).status_code == 401
    settings.METRICS_TOKEN = "scrape me"
    for header, status in (("Bearer scrape me", 200), ("Bearer wrong", 401), ("Basic scrape me", 401)):
        assert Client().get("/metrics", headers={"Authorization": header}).status_code == status


def test_metrics_count_activity_without_user_text(settings: Settings) -> None:
    settings.METRICS, settings.METRICS_TOKEN = True, "t"
    owner = make_user("zebrafinch")
    client = signed_in(owner)
    waiting = make_conversation(owner, exchange(("a quaggamussel waits", "yes")), title="quaggamussel")
    conversation = make_conversation(owner, exchange(("where is the axolotl lab?", "In Lima."), ("more", "yes")))
    index_conversation(conversation_id=conversation.pk)
    for query in ("axolotl", "axolotl lab"):
        client.get("/api/v1/conversations/search", {"query": query})
    client.get(f"/conversations/{waiting.pk}")
    client.get("/no/such/axolotl")
    measures.flush()

    found = values(Client(), Authorization="Bearer t")

    assert found["convmemory_search_duration_seconds_count", "hybrid"] == 2
    assert found["convmemory_search_duration_seconds_bucket", "+Inf|hybrid"] == 2
    assert found["convmemory_search_failures_total", "hybrid"] == 0
    assert found["convmemory_embedding_items_total", "passages"] == 4
    assert found["convmemory_request_duration_seconds_count", "GET /conversations/<int:conversation_id>"] == 1
    assert found["convmemory_turns", "all"] == 3
    assert found["convmemory_turns", "behind"] == 1
    assert [found[f"convmemory_{name}", ""] for name in ("conversations", "messages", "users")] == [2, 6, 1]
    assert ("convmemory_queue_tasks", "waiting") in found
    assert found["convmemory_table_bytes", "search_passageblock"] > 0
    text = Client().get("/metrics", headers={"Authorization": "Bearer t"}).content.decode()
    for private in ("axolotl", "quaggamussel", "zebrafinch"):
        assert private not in text


def test_age_of_oldest_unindexed_change_is_that_of_storing_it(settings: Settings) -> None:
    settings.METRICS, settings.METRICS_TOKEN = True, "t"

    def age_s() -> float:
        return values(Client(), Authorization="Bearer t")["convmemory_oldest_unindexed_seconds", ""]

    owner = make_user()
    first, second = (make_conversation(owner, exchange((f"question {n}", "yes"))) for n in range(2))
    assert 0 < age_s() < 600, "the messages are of another year"
    Source.objects.filter(object_id=first.pk).update(behind_since=timezone.now() - timedelta(hours=1))
    append_messages(
        caller=Caller.of(owner), conversation_id=first.pk, drafts=[user_says("still there?"), assistant_says("yes")]
    )
    index_conversation(conversation_id=second.pk)
    assert 3_600 <= age_s() < 4_200
    SourceIndex.objects.update(error="The endpoint answers 503", attempts=1)
    assert age_s() >= 3_600, "a failed attempt does not end the waiting"
    index_conversation(conversation_id=first.pk)
    index_conversation(conversation_id=second.pk)
    assert age_s() == 0
    append_messages(
        caller=Caller.of(owner), conversation_id=first.pk, drafts=[user_says("and now?"), assistant_says("yes")]
    )
    assert 0 < age_s() < 600


def test_fit_request_id_is_answered_back_and_stands_in_log(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(f"{logs.request_id.get()} {record.getMessage()}")

    log = logging.getLogger("convmemory.requests")
    handler, level = Listener(), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        answer = Client().get("/login?next=secret", headers={"X-Request-ID": "trace-0815"})
        made = Client().get("/login", headers={"X-Request-ID": "not fit\tfor a log"})
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    assert answer.headers["X-Request-ID"] == "trace-0815"
    assert len(made.headers["X-Request-ID"]) == 16
    assert seen == ["trace-0815 GET /login 200", f"{made.headers['X-Request-ID']} GET /login 200"]
    assert logs.request_id.get() == ""


def test_task_is_counted_and_its_id_stands_in_log_while_it_runs() -> None:
    fair_queue.last_work.set(fair_queue.Work("4567", "search.tasks.build", (), "", is_recorded=True))  # long ended
    task: dict[str, Any] = {"id": "0123abcd", "func": "search.tasks.index", "args": (1,)}
    pre_execute.send(sender="django_q", func=None, task=task)
    assert logs.current() == {"task_id": "0123abcd"}
    post_execute_in_worker.send(sender="django_q", func=None, task=task | {"success": False})
    assert logs.current() == {}
    measures.flush()
    (row,) = measures.totals()
    assert (row.name, row.label, row.count, row.failures) == ("task", "search.tasks.index", 1, 1)


def test_ready_says_no_more_than_that_and_the_log_says_why(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def assert_not_ready(reason: str) -> None:
        caplog.clear()
        answer = Client().get("/ready")
        assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
        assert reason in caplog.text

    assert [Client().get(path).json() for path in ("/health", "/ready")] == [{"status": "ok"}] * 2
    settings.VAR_DIR = tmp_path / "gone"
    assert_not_ready("The data folder cannot be written: No such file or directory.")
    settings.VAR_DIR = tmp_path
    assert Client().get("/ready").status_code == 200
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Mock(free=1024**2))
    assert_not_ready("The disk of the data folder is full: free space on /")
    monkeypatch.undo()
    for error in (OperationalError("gone"), DatabaseUnavailable("/srv/convmemory/postgres did not start")):

        def refuse(*_: Any, error: Exception = error) -> Any:
            raise error

        with connection.execute_wrapper(refuse):
            assert_not_ready(f"The database does not answer: {error}")
    assert Client().get("/health").status_code == 200


def test_dashboard_and_alerts_name_metrics_that_exist(settings: Settings, tmp_path: Path) -> None:
    settings.METRICS, settings.METRICS_TOKEN = True, "t"
    settings.BACKUP_FOLDER = str(tmp_path)
    (tmp_path / "convmemory-20260101T000000.zip").touch()
    SweepRun.objects.create(started_at=timezone.now(), seconds=0)
    RestoreCheck.objects.create(checked_at=timezone.now())
    owner = make_user("quetzal")
    make_conversation(owner, exchange(("a question", "an answer")))
    for name, label in (
        ("search", "hybrid"),
        ("task", "search.tasks.index"),
        ("embedding", "text"),
        ("response", "2xx"),
        ("pool_wait", "app"),
        ("stream", "stranger"),
    ):
        report(Measurement(name, label, 0.1))
    measures.flush()
    answer = Client().get("/metrics", headers={"Authorization": "Bearer t"})
    families = list(text_string_to_metric_families(answer.content.decode()))
    given = {name for one in families for name in (one.name, *(sample.name for sample in one.samples))}
    assert all(family.documentation for family in families)
    for file in ("alerts.yaml", "grafana.json"):
        text = (Path(settings.BASE_DIR) / "deploy/monitoring" / file).read_text(encoding="utf-8")
        named = set(re.findall(r"\bconvmemory_\w+", text))
        assert len(named) > 5
        assert named - given == set(), file
    found = values(Client(), Authorization="Bearer t")
    assert found["convmemory_last_sweep_timestamp_seconds", "quick"] == pytest.approx(time.time(), abs=60)
    assert found["convmemory_last_backup_timestamp_seconds", ""] == pytest.approx(time.time(), abs=60)
    assert found["convmemory_last_restore_check_timestamp_seconds", ""] == pytest.approx(time.time(), abs=60)
    assert found["convmemory_owner_stored_bytes", str(owner.pk)] > 256
    assert found["convmemory_disk_bytes", "total"] > found["convmemory_disk_bytes", "free"] > 0
    entries = found["convmemory_audit_entries_total", ""]
    for _ in range(3):
        record(Action.MADE, what="key 1", person_id=None, about_id=owner.pk)
    AuditEntry.objects.all().delete()
    assert values(Client(), Authorization="Bearer t")["convmemory_audit_entries_total", ""] == entries + 3
    assert "quetzal" not in answer.content.decode()
