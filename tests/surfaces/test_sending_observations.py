"""Traces and errors that are sent to a collector and to Sentry: what they contain, and above all what they do not."""

import gzip
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import sentry_sdk
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.test import Client
from django_q.signals import post_execute_in_worker, pre_execute
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pytest_django import Settings

from convmemory.core import logs
from convmemory.core.error_reports import SentryHandler
from convmemory.ops.observability import tracing
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.installation import ROOT

pytestmark = pytest.mark.django_db

PRIVATE = (b"axolotl", b"quagga", b"numbat")


class Collector:
    """Keeps the bodies of what it is sent, decompressed, by path."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.bodies: list[tuple[str, bytes]] = []


@pytest.fixture
def collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            found.bodies.append((self.path, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Collector(server.server_port)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def test_spans_of_request_form_one_trace_without_texts(collector: Collector, settings: Settings) -> None:
    settings.OTEL_EXPORTER_OTLP_ENDPOINT = f"http://{collector.address}/"
    owner = make_user("numbat")
    conversation = make_conversation(owner, exchange(("where is the axolotl?", "with the quagga")), title="axolotl")
    client = signed_in(owner)
    tracing.start()
    try:
        task = {"id": "0123abcd", "func": "search.tasks.index", "args": ("axolotl",)}
        pre_execute.send(sender="django_q", func=None, task=task)
        index_conversation(conversation_id=conversation.pk)
        post_execute_in_worker.send(sender="django_q", func=None, task=task | {"success": False})
        found = client.get("/api/v1/conversations/search", {"query": "axolotl"}, headers={"X-Request-ID": "trace-0815"})
        assert found.json()["results"]
        client.get(f"/conversations/{conversation.pk}?from=quagga", headers={"X-Request-ID": "trace-4711"})
    finally:
        tracing.stop()
    assert {path for path, _ in collector.bodies} == {"/v1/traces"}
    assert not [word for word in PRIVATE for _, body in collector.bodies if word in body]
    spans = [
        span
        for _, body in collector.bodies
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    roots = {span.name: span for span in spans if not span.parent_span_id}
    assert set(roots) == {
        "search.tasks.index", "GET /api/v1/conversations/search", "GET /conversations/<int:conversation_id>"
    }  # fmt: skip
    children = {span.name: span for span in spans if span.parent_span_id}
    pairs = {"search hybrid": "GET /api/v1/conversations/search", "embedding passages": "search.tasks.index"}
    for child, parent in pairs.items():
        assert children[child].trace_id == roots[parent].trace_id
        assert children[child].parent_span_id == roots[parent].span_id
        assert children[child].start_time_unix_nano >= roots[parent].start_time_unix_nano
    assert roots["search.tasks.index"].status.code == 2
    assert len({span.trace_id for span in roots.values()}) == 3


@contextmanager
def sending_errors(collector: Collector) -> Iterator[None]:
    handler = SentryHandler(f"http://public@{collector.address}/7")
    handler.setLevel(logging.ERROR)
    logging.getLogger().addHandler(handler)
    try:
        yield
        sentry_sdk.flush(10)
    finally:
        logging.getLogger().removeHandler(handler)
        sentry_sdk.get_client().close()


def test_errors_are_sent_with_their_place_and_without_texts(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = make_user("numbat")
    client = Client(raise_request_exception=False)
    client.force_login(owner)

    def fail(*args: object, **values: object) -> None:
        query = "axolotl"
        try:
            with transaction.atomic():
                User.objects.bulk_create([User(username=f"{query} quagga") for _ in range(2)])
        except IntegrityError as error:
            raise ValueError(f"could not read {query!r}") from error

    monkeypatch.setattr("convmemory.accounts.views.choice_of", fail)
    with sending_errors(collector):
        assert client.get("/settings/account?q=axolotl", headers={"X-Request-ID": "trace-0815"}).status_code == 500
        logging.getLogger("elsewhere").error("%s", logs.quoted("axolotl"))
    assert collector.bodies
    assert not [word for word in PRIVATE for _, body in collector.bodies if word in body]
    events = [json.loads(line) for _, body in collector.bodies for line in body.splitlines() if b'"logentry"' in line]
    [event] = [event for event in events if "exception" in event]
    *_, cause, error = event["exception"]["values"]
    assert (cause["type"], error["type"], error["value"]) == ("IntegrityError", "ValueError", "(message left out)")
    assert "SQLSTATE 23505" in cause["value"]
    assert error["stacktrace"]["frames"][-1]["function"] == "fail"
    assert "vars" not in json.dumps(event)
    assert event["tags"]["request_id"] == "trace-0815"
    assert [name for name in ("request", "user", "extra") if event.get(name)] == []
    assert not event["breadcrumbs"]["values"]


def test_error_that_cannot_be_sent_does_not_reach_what_logs_it(capsys: pytest.CaptureFixture[str]) -> None:
    SentryHandler("no DSN").handle(logging.LogRecord("x", logging.ERROR, "x.py", 1, "a message", None, None))
    assert "BadDsn" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "module"), [("SENTRY_DSN", "sentry_sdk"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "opentelemetry")]
)
def test_setting_whose_package_is_missing_is_refused_at_start(variable: str, module: str) -> None:
    script = (
        f"import os, sys; sys.modules[{module!r}] = None; os.environ[{variable!r}] = 'http://key@localhost:9/1'; "
        "import convmemory.settings"
    )
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert f"SettingError: {variable} needs packages that are not installed: run `make extras`" in found.stderr
