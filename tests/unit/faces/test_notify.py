"""Airflow's notifiers send what people have to know: docs/notifications.md, with a real mail server."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sqlalchemy as sa
from made_health import sick_health
from smtp_server import SmtpServer, running_smtp

from airflow_snowpack import dags, operators
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.inventory import HealthRecords
from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.notifications import CauseKind
from airflow_snowpack.store import StoreUnreachable
from airflow_snowpack.store.signs_of_life import read_signs
from airflow_snowpack.store.tables.notifications import notification_receivers
from tests.unit.faces.conftest import Outcome, Runner

PAGE = Path(__file__).parents[3] / "docs" / "notifications.md"
ERROR = "Access <denied> to 's3://lake/orders' with /etc/keys/spark.json"


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmtpServer]:
    with running_smtp() as server:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(server.connection()))
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://vera:pw@airflow.example.com/af")
        yield server


@pytest.fixture
def of_page(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The notifiers of the page, in the module that its setting names."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (setting,) = re.findall(r"\[snowpack\] notifiers = (\S+)`", PAGE.read_text())
    name = setting.partition(":")[0]
    module = ModuleType(name)
    exec(compile(block, str(PAGE), "exec"), vars(module))
    monkeypatch.setitem(sys.modules, name.partition(".")[0], ModuleType("my_company"))
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("AIRFLOW__SNOWPACK__NOTIFIERS", setting)
    return vars(module)


def fail(jobs: Jobs, dotted: str, error: str = ERROR) -> str:
    job = jobs.submit(TableName.parse(dotted, catalog="lake"), ["rewrite_data_files"])
    claim = jobs.claim("worker", job_id=job.job_id)
    assert claim is not None
    jobs.finish(claim, JobStatus.FAILED, [], error)
    jobs.flush()
    return job.job_id


def text_of(mail: Any) -> str:
    return " ".join(part.get_payload(decode=True).decode() for part in mail.walk() if not part.is_multipart())


def later(jobs: Jobs) -> None:
    """Let the pauses of all receivers elapse."""
    past = jobs.store.clock() - timedelta(seconds=1)
    jobs.store.execute(sa.update(notification_receivers).values(next_attempt_at=past))


def test_the_dag_sends_a_mail_by_the_notifiers_of_the_page(
    run_operator: Runner, jobs: Jobs, mails: SmtpServer, of_page: dict[str, Any]
) -> None:
    job_id = fail(jobs, "shop.orders")
    outcome = run_operator(dags.notifications.get_task("notify"))
    assert outcome.xcom == {"causes": 1, "sent": {"*": 1}, "failed": {}}, outcome.error
    (mail,) = mails.received
    assert (mail["Subject"], mail["To"]) == ("Snowpack: 1 new cause", "data@example.com")
    assert text_of(mail) == (
        "<pre>- failure: 1 table failed: shop.orders: Access &lt;denied&gt; to … with …. "
        f"https://airflow.example.com/af/snowpack/ui/jobs/{job_id}</pre>"
    )
    signs = jobs.store.read(read_signs)
    assert [(sign.role, sign.instance) for sign in signs] == [("notifier", "snowpack_notifications.notify")]


def test_a_mail_server_that_is_down_loses_nothing_and_the_task_succeeds(
    run_operator: Runner, jobs: Jobs, mails: SmtpServer, of_page: dict[str, Any]
) -> None:
    def notify() -> Outcome:
        return run_operator(operators.NotifyOperator(task_id="notify", notifier=of_page["NOTIFIERS"]))

    fail(jobs, "shop.orders")
    mails.kill()
    down = notify()
    assert (down.state, down.xcom["sent"]) == ("success", {})
    assert "Connection refused" in down.xcom["failed"]["*"]
    fail(jobs, "shop.refunds")
    assert notify().xcom["failed"] == {}, "the pause has not elapsed"
    mails.start()
    later(jobs)
    assert notify().xcom["sent"] == {"*": 1}
    later(jobs)
    assert notify().xcom["sent"] == {}
    (mail,) = mails.received
    assert "2 tables failed: shop.refunds and shop.orders" in text_of(mail)


@pytest.mark.one_database
def test_a_notifier_that_fails_to_render_stops_no_other_one_and_each_message_is_rendered(
    run_operator: Runner, jobs: Jobs
) -> None:
    from airflow.sdk import BaseNotifier

    class Kept(BaseNotifier):
        template_fields = ("text",)

        def __init__(self, text: str, kept: list[str]) -> None:
            super().__init__()
            self.text, self.kept = text, kept

        def notify(self, context: Any) -> None:
            self.kept.append(self.text)

    kept: list[str] = []
    notifiers = {"ana": Kept("{{ snowpack.nothing.at.all }}", kept), "*": Kept("{{ snowpack.title }} {{ ti.task_id }}", kept)}
    HealthRecords(jobs.store).put(
        TableName.parse("shop.sick", catalog="lake"), replace(sick_health(), properties={"owner": "ana"})
    )
    task = operators.NotifyOperator(task_id="notify", notifier=notifiers, score_below=80)
    for error in ("Access denied.", "No space left."):
        fail(jobs, "shop.orders", error)
        outcome = run_operator(task)
        assert outcome.state == "success"
        assert "UndefinedError" in outcome.xcom["failed"]["ana"]
        later(jobs)
    assert kept == ["Snowpack: 1 new cause notify", "Snowpack: 1 new cause notify"]


@pytest.mark.one_database
@pytest.mark.parametrize("given", [None, {"ana": print}, {"*": "mail"}])
def test_without_a_receiver_for_everything_the_task_fails_and_names_the_setting(run_operator: Runner, given: Any) -> None:
    outcome = run_operator(operators.NotifyOperator(task_id="notify", notifier=given))
    assert outcome.state == "failed"
    assert "mail" not in str(outcome.error), "an address may have a token"
    assert r"name one in [snowpack] notifiers, such as my_company.alerts:NOTIFIERS" in str(outcome.error)


@pytest.mark.one_database
def test_notifiers_that_cannot_be_imported_are_named_with_the_setting(
    run_operator: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__NOTIFIERS", "json:nowhere")
    outcome = run_operator(operators.NotifyOperator(task_id="notify"))
    assert outcome.state == "failed"
    assert "[snowpack] notifiers = json:nowhere cannot be imported: module 'json' has no attribute" in str(outcome.error)


@pytest.mark.one_database
def test_policies_that_cannot_be_used_stop_no_notification(
    run_operator: Runner, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__POLICIES", "gone.yaml")
    fail(jobs, "shop.orders")
    assert run_operator(operators.NotifyOperator(task_id="notify", notifier=print)).xcom["sent"] == {"*": 1}


@pytest.mark.one_database
def test_a_digest_at_no_time_is_refused(run_operator: Runner) -> None:
    outcome = run_operator(operators.NotifyOperator(task_id="notify", notifier=print, digest="at seven"))
    assert (outcome.state, "Give a cron expression such as '0 7 * * *'" in str(outcome.error)) == ("failed", True)


@pytest.mark.one_database
def test_the_digest_of_a_dag_whose_zone_is_an_offset_is_sent(run_operator: Runner, jobs: Jobs) -> None:
    from airflow.sdk import DAG

    zone = timezone(timedelta(hours=-3, minutes=-30))
    with DAG("notify_by_offset", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=zone)):
        task = operators.NotifyOperator(task_id="notify", notifier=lambda context: None)
    run_operator(task)
    jobs.store.execute(sa.update(notification_receivers).values(digest_at=jobs.store.clock() - timedelta(days=2)))
    assert run_operator(task).xcom == {"causes": 0, "sent": {"*": 0}, "failed": {}}


@pytest.mark.one_database
def test_the_digest_of_the_default_receiver_says_what_maintenance_did(run_operator: Runner, jobs: Jobs) -> None:
    kept: list[Any] = []
    task = operators.NotifyOperator(task_id="notify", notifier=lambda context: kept.append(context["snowpack"]))
    run_operator(task)
    fail(jobs, "shop.orders")
    jobs.store.execute(sa.update(notification_receivers).values(digest_at=jobs.store.clock() - timedelta(days=2)))
    assert run_operator(task).state == "success"
    (message,) = kept
    assert message.is_digest
    assert message.text.splitlines()[2] == "1 job, 1 failed for one cause, no table health stored yet."
    assert "keys" not in message.text, "the error in full has the path of a key"


@pytest.mark.one_database
def test_an_error_instead_of_the_headline_names_no_path(
    run_operator: Runner, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise StoreUnreachable("db/snowpack", OSError("no key in /etc/keys/store.pem"))

    monkeypatch.setattr("airflow_snowpack.maintenance.digest.read_digest", unreadable)
    kept: list[Any] = []
    task = operators.NotifyOperator(task_id="notify", notifier=lambda context: kept.append(context["snowpack"]))
    run_operator(task)
    jobs.store.execute(sa.update(notification_receivers).values(digest_at=jobs.store.clock() - timedelta(days=2)))
    assert run_operator(task).state == "success"
    (message,) = kept
    assert "cannot be read (StoreUnreachable)" in message.text
    assert "keys" not in message.text


def test_the_page_lists_every_kind_of_cause() -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE.read_text(), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"\w+", row)} == set(CauseKind)
