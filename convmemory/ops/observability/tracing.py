"""Sends spans of requests, tasks, searches and embeddings to a collector, with `OTEL_EXPORTER_OTLP_ENDPOINT`.

A span is made from a `Measurement` when it ends, so that it contains what the metrics contain: names from the code,
durations and counts, no texts of people. All spans of a request or a task form one trace, whose id follows from the id
in the log and in `X-Request-ID`.
"""

import secrets
import time
from contextvars import ContextVar
from hashlib import sha256
from multiprocessing.util import Finalize
from typing import Any

import convmemory
from convmemory.core import logs
from convmemory.core.config import config
from convmemory.core.measuring import Measurement, measured
from convmemory.ops.observability.measures import FLUSH_AT_EXIT_PRIORITY

ROOTS = ("request", "task")
LEFT_OUT = ("response", "stream")  # count requests again

_started: list[Any] = []
"""The provider of this process."""

_is_root: ContextVar[bool] = ContextVar("is_root", default=False)


class _Ids:
    """Chooses ids for the SDK: known ones for the root of a request or task, else random ones."""

    def generate_trace_id(self) -> int:
        ids = _ids_of_work()
        return ids[0] if ids else secrets.randbits(128) or 1

    def generate_span_id(self) -> int:
        ids = _ids_of_work() if _is_root.get() else None
        return ids[1] if ids else secrets.randbits(64) or 1

    def is_trace_id_random(self) -> bool:
        return False


def start() -> None:
    """Send the spans of this process from now on, if a collector is set; web processes and workers call it."""
    if not config.otel_exporter_otlp_endpoint or _started:
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # The name and the attributes in the SDK's own variables take precedence.
    resource = Resource({"service.name": "convmemory", "service.version": convmemory.__version__}).merge(
        Resource.create()
    )
    provider = TracerProvider(resource=resource, id_generator=_Ids())  # type: ignore[arg-type]
    endpoint = f"{config.otel_exporter_otlp_endpoint.rstrip('/')}/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    _started.append(provider)
    measured.connect(on_measured, dispatch_uid="ops.tracing")
    Finalize(None, stop, exitpriority=FLUSH_AT_EXIT_PRIORITY)


def stop() -> None:
    """Send what is left, and end sending."""
    measured.disconnect(dispatch_uid="ops.tracing")
    while _started:
        _started.pop().shutdown()


def on_measured(sender: Any, *, measurement: Measurement, **kwargs: Any) -> None:
    """Record a span that ends now."""
    from opentelemetry import trace

    if measurement.name in LEFT_OUT:
        return
    ended_ns = time.time_ns()
    is_root, ids = measurement.name in ROOTS, _ids_of_work()
    token = _is_root.set(is_root)
    context = None
    if ids and not is_root:
        trace_id, root_id = ids
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        parent = trace.SpanContext(trace_id, root_id, is_remote=True, trace_flags=flags)
        context = trace.set_span_in_context(trace.NonRecordingSpan(parent))
    kinds = {"request": trace.SpanKind.SERVER, "task": trace.SpanKind.CONSUMER}
    span = (
        _started[0]
        .get_tracer("convmemory")
        .start_span(
            measurement.label if is_root else f"{measurement.name} {measurement.label}".strip(),
            context=context,
            kind=kinds.get(measurement.name, trace.SpanKind.INTERNAL),
            start_time=ended_ns - int(measurement.seconds * 1e9),
            attributes={
                "convmemory.items": measurement.items,
                **{f"convmemory.{k}": v for k, v in logs.current().items()},
            },
        )
    )
    _is_root.reset(token)
    if measurement.failed:
        span.set_status(trace.StatusCode.ERROR)
    span.end(ended_ns)


def _ids_of_work() -> tuple[int, int] | None:
    """Return the ids of the trace and of the root span of the current request or task; None outside of both."""
    work = logs.request_id.get() or logs.task_id.get()
    if not work:
        return None
    digest = sha256(work.encode()).digest()
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:24]) or 1
