"""What goes wrong becomes a document, and tells nothing that is nobody's business."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy.exc import OperationalError, TimeoutError as PoolTimeout
from starlette.types import Receive, Scope, Send

from airflow_snowpack.api import Forbidden, NotAuthenticated, Services
from airflow_snowpack.api.middleware import OuterLayer
from airflow_snowpack.api.problems import CatalogTooSlow, InvalidRequest, StoreDown, problem_of, reason_in_words, snake_case
from airflow_snowpack.api.routes.service import check_readiness
from airflow_snowpack.api.services import LazyServices
from airflow_snowpack.builds.errors import PointerMoved
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg import CatalogUnreachable, InvalidTableName, TableNotFound
from airflow_snowpack.jobs import DrainModeOn, DrainState, JobNotFound
from airflow_snowpack.maintenance import NoActions, UnknownAction
from airflow_snowpack.store import InvalidCursor, SchemaOutOfDate, StoreTooSlow, StoreUnreachable

REFUSED = (
    'connection failed: connection to server at "10.0.0.7", port 5432 failed: Connection refused\n'
    "\tIs the server running on that host and accepting TCP/IP connections?"
)


def document(error: Exception) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(bytes(problem_of(error).body))
    return answer


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NotAuthenticated("Nobody asks."), 401, "not_authenticated"),
        (Forbidden("No."), 403, "forbidden"),
        (JobNotFound("x"), 404, "job_not_found"),
        (TableNotFound("a.b", "lake"), 404, "table_not_found"),
        (NoActions(("a",)), 400, "no_actions"),
        (UnknownAction("b", ("a",)), 400, "unknown_action"),
        (InvalidTableName("x", None), 422, "invalid_table_name"),
        (InvalidCursor("x"), 422, "invalid_cursor"),
        (InvalidRequest.at("body", "it is empty"), 422, "invalid_request"),
        (PointerMoved("flights", "r1", 4, 7), 409, "pointer_moved"),
        (DrainModeOn(DrainState(on=True)), 503, "drain_mode"),
        (CatalogUnreachable("lake", OSError("gone")), 503, "catalog_unreachable"),
        (StoreUnreachable("postgresql://me@db/x", OSError("gone")), 503, "store_down"),
        (StoreTooSlow("postgresql://me@db/x"), 503, "store_too_slow"),
        (OperationalError("SELECT 1", None, psycopg.OperationalError("gone")), 503, "store_down"),
        (PoolTimeout("QueuePool limit of size 5 overflow 10 reached"), 503, "store_down"),
        (SchemaOutOfDate("db", None, "0002"), 503, "schema_out_of_date"),
        (SnowpackError("A setting is wrong."), 500, "snowpack_error"),
        (KeyError("inside"), 500, "internal_error"),
    ],
)
def test_each_error_has_its_status_and_its_code(error: Exception, status: int, code: str) -> None:
    said = document(error)
    assert (said["status"], said["error"], said["type"]) == (status, code, f"urn:snowpack:problem:{code}")
    assert said["detail"].endswith(".")
    assert "\n" not in said["title"]


def test_a_code_is_the_name_of_its_error() -> None:
    assert [snake_case(kind.__name__) for kind in (CatalogTooSlow, StoreDown)] == ["catalog_too_slow", "store_down"]


def test_a_store_that_is_down_is_told_with_its_host_and_nothing_else() -> None:
    said = document(StoreUnreachable("postgresql+psycopg://vera@10.0.0.7:5432/snowpack", psycopg.OperationalError(REFUSED)))
    assert "the server at 10.0.0.7: refused the connection" in said["detail"]
    assert not [secret for secret in ("vera", "5432", "postgresql", "psycopg") if secret in json.dumps(said)]


def test_a_store_that_is_too_slow_is_told_without_its_address() -> None:
    said = document(StoreTooSlow("postgresql+psycopg://vera@10.0.0.7:5432/snowpack"))
    assert said["detail"].startswith("The Snowpack store is up, but did not finish this request in time. Narrow it:")
    assert not [secret for secret in ("vera", "5432", "10.0.0.7") if secret in json.dumps(said)]


def test_a_store_that_is_to_be_upgraded_is_told_without_its_address() -> None:
    outdated = SchemaOutOfDate("postgresql+psycopg://vera@10.0.0.7:5432/snowpack", "0001", "0002")

    def opening() -> Services:
        raise outdated

    for said in (document(outdated)["detail"], check_readiness(LazyServices(opening))[0]["store"].state):
        assert said == (
            "The Snowpack store is at revision 0001, and this version of airflow-snowpack needs revision 0002. "
            "Run `airflow snowpack db upgrade`."
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('FATAL:  password authentication failed for user "vera"', "it refused the login"),
        ("FATAL:  the database system is starting up", "it is starting or stopping"),
        ("unable to open database file", "its file cannot be opened"),
        ("database is locked", "its file is locked by another program"),
        ("the server did not answer in time", "it did not answer in time"),
        ("something with a secret in it", "it answered with OperationalError"),
    ],
)
def test_of_a_drivers_message_only_what_is_known_is_told(text: str, words: str) -> None:
    assert reason_in_words(OperationalError("SELECT 1", None, psycopg.OperationalError(text))) == words


def test_an_error_that_nobody_expected_is_logged_with_its_traceback_and_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("a secret of the inside")

    counted: list[tuple[str, str, int]] = []
    edge = OuterLayer(broken, lambda method, route, code, seconds: counted.append((method, route, code)))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(edge), base_url="http://api") as client:
            return await client.get("/anything")

    with caplog.at_level(logging.ERROR):
        answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["error"]) == (500, "internal_error")
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "a secret of the inside" in caplog.text
    assert "Traceback" in caplog.text
    assert counted == [("GET", "unmatched", 500)]


def test_a_half_surrogate_in_a_message_is_no_second_error() -> None:
    assert "?" in document(InvalidRequest.at("body", "\ud800"))["detail"]
