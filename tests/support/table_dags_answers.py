"""What Airflow's own API answers about the DAGs of tables, with no server: the API runs in this process, on its own database.

    python table_dags_answers.py <folder>            # prints what is read, as one line of JSON

Run it in a process of its own, with AIRFLOW_HOME in the folder. The states are written into Airflow's tables; what is made of
them is Airflow's code and ours.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_answers import InProcess

DAG_FILE = """
from datetime import datetime, timezone
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, AssetAlias
from airflow_snowpack.assets import iceberg_asset
from airflow_snowpack.operators import MaintainTableOperator, RunEntryOperator

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
EVENTS = iceberg_asset("db.events")

with DAG("ingest", schedule="@hourly", start_date=START, catchup=False):
    load = EmptyOperator(task_id="load", outlets=[EVENTS])
    raw = RunEntryOperator(task_id="load_raw", runner="subprocess", command=["load"], outlets=[iceberg_asset("db.raw")])
    raw >> load >> MaintainTableOperator(task_id="maintain", table="db.events")

with DAG("compact", schedule="@hourly", start_date=START, catchup=False):
    MaintainTableOperator(task_id="maintain", table="db.events")

with DAG("weekly", schedule="0 0 1 1 *", start_date=START, catchup=False):
    EmptyOperator(task_id="load", outlets=[EVENTS])

with DAG("via_alias", schedule="@hourly", start_date=START, catchup=False):
    EmptyOperator(task_id="load", outlets=[AssetAlias("loaded")])

with DAG("elsewhere", schedule="@hourly", start_date=START, catchup=False):
    EmptyOperator(task_id="load", outlets=[iceberg_asset("db.events", catalog_conn_id="another")])

with DAG("report", schedule=EVENTS):
    EmptyOperator(task_id="work")

with DAG("on_arrival", schedule=iceberg_asset("db.events", watched=True)):
    EmptyOperator(task_id="work")

with DAG("dashboard", schedule=None):
    EmptyOperator(task_id="work", inlets=[EVENTS])

for number in range({tables}):
    with DAG(f"load_{number}", schedule=None):
        EmptyOperator(task_id="load", outlets=[iceberg_asset(f"db.table_{number}")])
"""
TABLES = 20
NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
RUNS = {"ingest": 14, "report": 14, "on_arrival": 7, "dashboard": 21}
"""How many runs each DAG had in the last week."""


class Counting(InProcess):
    """Airflow's API, which counts the requests by their path."""

    where = "Airflow"

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def ask(self, method: str, path: str, *, params: Any = None, body: Any = None) -> Any:
        self.paths.append(path)
        return super().ask(method, path, params=params, body=body)


def make_airflow(folder: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session
    from sqlalchemy import select

    (folder / "dags").mkdir()
    (folder / "dags" / "tables.py").write_text(DAG_FILE.replace("{tables}", str(TABLES)))
    initdb()
    bag = DagBag(folder / "dags", bundle_path=folder / "dags", bundle_name="dags-folder")
    assert not bag.import_errors, bag.import_errors
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
    sync_bag_to_db(bag, "dags-folder", None)
    with create_session() as session:
        for dag_id, number in RUNS.items():
            for index in range(number):
                start = NOW - timedelta(days=6.9) * (index + 1) / number
                make_run(session, dag_id, f"{dag_id}_{index}", start, start + timedelta(minutes=10 + index % 3))
        ids = {asset.uri: asset.id for asset in session.scalars(select(AssetModel))}
        events = ("via_alias", 2, "raw"), ("deleted", 3, "raw"), ("weekly", 8, "raw"), ("weekly", 1, "table_1")
        for dag_id, days, table in events:
            source = {"source_dag_id": dag_id, "source_task_id": "load", "source_run_id": "r", "source_map_index": -1}
            asset_id = ids[f"iceberg://lake/db/{table}"]
            session.add(AssetEvent(asset_id=asset_id, timestamp=NOW - timedelta(days=days), extra={}, **source))
        make_run(session, "report", "long_ago", NOW - timedelta(days=30), NOW - timedelta(days=30))


def make_run(session: Any, dag_id: str, run_id: str, start: datetime, end: datetime | None, ended: str = "success") -> None:
    from airflow.models.dagbag import DBDagBag
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    dag = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
    assert dag is not None
    run = dag.create_dagrun(
        run_id=run_id, run_after=start, run_type=DagRunType.MANUAL, triggered_by=DagRunTriggeredByType.TEST,
        state="running" if end is None else ended, session=session,
    )  # fmt: skip
    run.start_date, run.end_date = start, end


def due(times: dict[str, datetime]) -> None:
    """Unpause all DAGs, and let the timetables of these be due then, and of no other."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagModel).values(is_paused=False, next_dagrun_create_after=NOW + timedelta(days=9)))
        for dag_id, moment in times.items():
            session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(next_dagrun_create_after=moment))


def read(own_run: tuple[str, str] | None = None, conn_id: str | None = None, only: str | None = None) -> dict[str, Any]:
    """What is read, and with which requests."""
    from airflow_snowpack.hooks.table_dags import TableDags
    from airflow_snowpack.iceberg import TableName

    rest = Counting()
    table = None if only is None else TableName.parse(only, catalog="lake")
    found = TableDags(rest, conn_id, own_run, only=table).read(NOW)  # type: ignore[arg-type]  # all that is asked of it
    producers = {address: [dataclasses.asdict(each) for each in of] for address, of in found.producers.items()}
    failed = {address: [dataclasses.asdict(each) for each in of] for address, of in found.failed_runs.items()}
    return {"producers": producers, "failed": failed, "reads": dict(found.reads_per_day), "paths": rest.paths}


def main(folder: Path) -> None:
    make_airflow(folder)
    from airflow.utils.session import create_session

    from airflow_snowpack.hooks import table_dags

    answers = {}
    due({})
    answers["idle"] = read()
    due({"ingest": NOW + timedelta(minutes=20), "compact": NOW + timedelta(minutes=5), "elsewhere": NOW, "via_alias": NOW})
    answers["due"], answers["other_catalog"] = read(), read(conn_id="another")
    answers["one_table"] = read(only="db.events")
    with create_session() as session:
        make_run(session, "ingest", "now", NOW - timedelta(minutes=4), None)
    answers["running"], answers["own_run"] = read(), read(("ingest", "now"))
    with create_session() as session:
        for dag_id in ("ingest", "weekly", "compact"):
            make_run(session, dag_id, "lost", NOW - timedelta(minutes=9), NOW - timedelta(minutes=6), "failed")
    answers["failed"] = read()
    table_dags.MAX_EVENTS = 1
    answers["newest_event"] = read(only="db.raw")
    table_dags.MAX_RUN_PAGES, table_dags.PAGE, table_dags.MAX_TASK_LISTS = 2, 10, 1
    answers["limited"] = read()
    print(json.dumps(answers, default=lambda value: value.total_seconds() if isinstance(value, timedelta) else str(value)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
