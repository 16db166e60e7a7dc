"""The spans of jobs, as a receiver of OTLP gets them from processes that export them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

pytestmark = pytest.mark.one_database

PROCESS = """
import sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

from scripted_engine import ScriptedEngine
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Attempt, Jobs
from airflow_snowpack.store import open_store

step, url = sys.argv[1:]
with Jobs(open_store(url)) as jobs:
    if step == "submit":
        with trace.get_tracer("test").start_as_current_span("task"):
            jobs.submit(TableName("lake", "db", "t"), ["rewrite_data_files", "expire_snapshots"])
    else:
        claim = jobs.claim("w1")
        Attempt(jobs, claim, ScriptedEngine({"expire_snapshots": "fail"})).run()
provider.shutdown()
"""


class Receiver:
    """Takes OTLP over HTTP, as a collector does."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = ExportTraceServiceRequest.FromString(body)
                receiver.spans += [span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def named(self, name: str) -> Any:
        (found,) = (span for span in self.spans if span.name == name)
        return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, daemon=True)
    thread.start()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()
    thread.join()


def run_process(step: str, url: str, receiver: Receiver) -> None:
    """Submit or work in a process of its own, which exports its spans before it ends."""
    support = Path(__file__).parents[2] / "support"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(support), str(support.parents[1])]),
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
    }
    command = [sys.executable, "-c", PROCESS, step, url]
    subprocess.run(command, env=environment, check=True, timeout=300, capture_output=True)


@pytest.fixture
def traced(store_url: str, receiver: Receiver) -> Receiver:
    """What one process that submits a job and another that runs it have exported."""
    run_process("submit", store_url, receiver)
    run_process("work", store_url, receiver)
    return receiver


def test_a_job_is_one_trace_from_the_task_that_submits_it_to_its_end(traced: Receiver) -> None:
    task, submit = traced.named("task"), traced.named("snowpack.submit")
    wait, attempt, finish = (traced.named(f"snowpack.{name}") for name in ("wait", "attempt", "finish"))
    actions = [span for span in traced.spans if span.name == "snowpack.action"]

    assert {span.trace_id for span in traced.spans} == {task.trace_id}
    assert submit.parent_span_id == task.span_id
    assert {wait.parent_span_id, attempt.parent_span_id} == {submit.span_id}
    assert {span.parent_span_id for span in (finish, *actions)} == {attempt.span_id}
    assert wait.start_time_unix_nano <= wait.end_time_unix_nano <= attempt.end_time_unix_nano


def test_spans_name_the_table_and_outcomes_and_a_failure_is_an_error_of_its_action_and_attempt(traced: Receiver) -> None:
    attempt = traced.named("snowpack.attempt")
    of_attempt = {each.key: each.value.string_value or each.value.int_value for each in attempt.attributes}
    actions = {
        tuple(each.value.string_value for each in span.attributes): (span.status.code, span.status.message)
        for span in traced.spans
        if span.name == "snowpack.action"
    }

    assert (of_attempt["snowpack.table"], of_attempt["snowpack.attempt"], of_attempt["snowpack.status"]) == (
        "lake.db.t",
        1,
        "failed",
    )
    assert attempt.status.code == 2
    assert actions == {
        ("rewrite_data_files", "succeeded"): (0, ""),
        ("expire_snapshots", "failed"): (2, "no such file"),
    }


def test_a_process_without_the_sdk_of_opentelemetry_imports_nothing_of_it() -> None:
    code = "import sys; from airflow_snowpack.tracing import span, traceparent\n"
    code += "with span('x') as x: x.note(a=1); x.failed('no'); assert traceparent() is None\n"
    code += "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
