"""A Spark that does not start says why and what to do. They start processes of their own: a process has one JVM."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest
from bounded import PATIENCE_S

START = """
    from pathlib import Path
    from airflow_snowpack.spark import SparkConfig, SparkUnavailable, local_session
    try:
        local_session(SparkConfig({arguments}))
    except SparkUnavailable as error:
        print(error)
"""


def start(arguments: str) -> str:
    """Return what a new process prints when it starts Spark with these arguments."""
    script = dedent(START).replace("{arguments}", arguments)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return done.stdout.strip()


def test_a_jar_that_cannot_be_downloaded_is_named_with_the_ways_out() -> None:
    # The repository is one that cannot be reached, as on a machine without a network; nothing like it is in any cache.
    said = start('packages=("org.example:not-there:1.0",), conf={"spark.jars.repositories": "http://127.0.0.1:9/"}')
    assert said.startswith("Spark could not download org.example:not-there:1.0.")
    assert "spark.jars.repositories" in said
    assert "`jars`" in said


def test_a_jvm_that_refuses_its_settings_is_quoted() -> None:
    said = start('driver_memory="1z"')
    assert said.startswith("Spark's JVM ended before it was ready, with Java ")
    assert "1z" in said


SECRET_AND_RESTART = """
    import os, signal, sys
    from dataclasses import replace
    from pathlib import Path
    from airflow_snowpack.spark import SparkConfig, SparkDied, SparkWork, local_session

    home = Path(sys.argv[1])
    logged = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.eventLog.dir": f"file://{home}"}
    secrets = ("credential", "s3.secret-access-key", "adls.account-key", "adls.connection-string", "header.Authorization")
    config = SparkConfig(
        conf={"spark.hadoop.fs.s3a.secret.key": "hunter2", "spark.cleaner.ttl.note": "true", **logged},
        catalogs={f"spark.sql.catalog.lake.{name}": "hunter2" for name in secrets},
    )
    signal.signal(signal.SIGINT, lambda number, frame: print("handled"))
    session = local_session(config)
    signal.raise_signal(signal.SIGINT)
    context = session.sparkContext
    jvm = int(context._jvm.java.lang.ProcessHandle.current().pid())
    command = Path(f"/proc/{jvm}/cmdline").read_text()
    session.range(5).count()
    (events,) = (path.read_text() for path in home.rglob("events_*"))
    print("SparkListenerJobStart" in events, "adls.connection-string" in events, "hunter2" in events)
    other = local_session(replace(config, catalogs={"spark.sql.catalog.lake.uri": "http://127.0.0.1:9"}))
    print(other.conf.get("spark.sql.catalog.lake.credential", None), session.conf.get("spark.sql.catalog.lake.credential"))
    print("hunter2" in command, "spark.cleaner.ttl.note=true" in command)
    print(context._jsc.hadoopConfiguration().get("fs.s3a.secret.key"))
    try:
        SparkWork().run(session, lambda: (os.kill(jvm, signal.SIGKILL), session.range(5).count()))
    except SparkDied as error:
        print(str(error).replace(str(jvm), "PID"))
    again = local_session(config)
    print(again is not session, again.range(5).count())

    import pyarrow as pa
    from datetime import UTC, datetime
    from airflow_snowpack.iceberg import CatalogConfig, TableName
    from airflow_snowpack.jobs.model import Job, JobStatus
    from airflow_snowpack.maintenance import Action, SparkEngine

    lake = CatalogConfig.embedded(home)
    catalog, rows = lake.load(), pa.table({"id": [1]})
    catalog.create_namespace("db")
    catalog.create_table("db.t", rows.schema).append(rows)
    jvm = int(again.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    os.kill(jvm, signal.SIGKILL)
    options = {action.value: {"only_if_needed": False} for action in Action}
    job = Job("j1", TableName("lake", "db", "t"), tuple(Action), options, False, JobStatus.RUNNING, datetime.now(UTC))
    for action in (Action.REWRITE_DATA_FILES, Action.REWRITE_MANIFESTS):
        result = SparkEngine(lambda: again, lake.load).run(job, action)
        print(result.outcome, "|", result.message, "|", result.error.replace(str(jvm), "PID"))
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a process printed that handles SIGINT, started Spark with a secret, killed its JVM, and started and killed another."""
    command = [sys.executable, "-c", dedent(SECRET_AND_RESTART), str(tmp_path_factory.mktemp("lake"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_a_session_keeps_the_processs_own_handler_of_sigint(printed: list[str]) -> None:
    assert printed[0] == "handled"


def test_a_secret_setting_reaches_hadoop_and_is_not_on_the_jvms_command_line(printed: list[str]) -> None:
    assert printed[3:5] == ["False True", "hunter2"]


def test_secrets_of_a_catalog_are_neither_in_the_event_log_nor_in_other_sessions(printed: list[str]) -> None:
    assert printed[1:3] == ["True True False", "None hunter2"]


def test_a_jvm_that_died_is_replaced_by_the_next_session(printed: list[str]) -> None:
    assert printed[6] == "True 5"


DIED = (
    "Spark's JVM is gone: process PID was killed by SIGKILL, as when its machine or its container is out of memory. Run the work "
    "again; a new JVM starts. If that one dies too, give it more memory ([snowpack] spark_driver_memory) or more room on its "
    "machine."
)


def test_a_jvm_that_dies_in_a_call_is_reported_with_how_it_ended(printed: list[str]) -> None:
    assert printed[5] == DIED


def test_a_jvm_that_dies_before_the_first_call_of_an_action_is_reported_with_how_it_ended(printed: list[str]) -> None:
    rewrite, manifests = printed[7:]
    assert rewrite == f"failed | Failed before anything was done | {DIED}"
    assert manifests.startswith("failed | Failed")
    assert manifests.endswith(DIED)
