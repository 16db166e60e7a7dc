"""OpenTelemetry spans, where the process has a tracer provider.

    with span("snowpack.action", action="expire_snapshots") as action:
        parent = traceparent()              # W3C's text of this span, for a span in another process
        action.failed("The table is gone")
    with span("snowpack.attempt", parent=parent): ...

Airflow configures the provider by its section ``[traces]`` and OpenTelemetry's environment variables. The invariant: without
OpenTelemetry's SDK, which a process with a provider has imported, nothing is imported and nothing is recorded. Names, numbers and
outcomes are attributes; SQL and options, which may have values of rows, are not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_snowpack.redaction import redacted

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

TRACEPARENT = "traceparent"
NAME = "airflow_snowpack"
PREFIX = "snowpack."

Attribute = str | int | float | bool


class RecordedSpan:
    """A span, or nothing."""

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    def note(self, **attributes: Attribute) -> None:
        """Set attributes, named ``snowpack.…``."""
        if self._span is not None:
            self._span.set_attributes({f"{PREFIX}{name}": value for name, value in attributes.items()})

    def failed(self, why: str) -> None:
        """Set the status to error, with a reason without secrets."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR, redacted(why))


@contextmanager
def span(name: str, parent: str | None = None, **attributes: Attribute) -> Iterator[RecordedSpan]:
    """Record a block as a span; an error of the block is its status.

    :param parent: the :func:`traceparent` of its parent; ``None`` for the current span.
    """
    if not _is_configured():
        yield RecordedSpan()
        return
    from opentelemetry import trace

    tracer = trace.get_tracer(NAME)
    with tracer.start_as_current_span(name, _context(parent), record_exception=False, set_status_on_exception=False) as current:
        recorded = RecordedSpan(current)
        recorded.note(**attributes)
        try:
            yield recorded
        except BaseException as error:
            recorded.failed(f"{type(error).__name__}: {error}")
            raise


def record_past(name: str, parent: str | None, began: datetime, ended: datetime) -> None:
    """Record what is over, such as a wait, as a span."""
    if not _is_configured():
        return
    from opentelemetry import trace

    past = trace.get_tracer(NAME).start_span(name, _context(parent), start_time=_nanoseconds(began))
    past.end(_nanoseconds(max(began, ended)))


def traceparent() -> str | None:
    """Return the current span as W3C's ``traceparent``; ``None`` if there is none."""
    if not _is_configured():
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(TRACEPARENT)


def _context(parent: str | None) -> Context | None:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return None if parent is None else TraceContextTextMapPropagator().extract({TRACEPARENT: parent})


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000


def _is_configured() -> bool:
    return "opentelemetry.sdk.trace" in sys.modules
