"""Compact what arrived in one data interval: each run rewrites only the files that may contain rows of its day.

Suitable for backfills. Runs wait in the triggerer for the lock of the table, so they take turns:

    airflow backfill create --dag-id snowpack_maintain_partitions --from-date 2013-07-01 --to-date 2013-07-05 \
        --dag-run-conf '{"table": "demo.flights", "column": "flight_date"}'

The predicate excludes most files on a table that is partitioned by the column, or by a transform of it such as its day.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

from airflow_snowpack.operators import MaintainTableOperator

with DAG(
    dag_id="snowpack_maintain_partitions",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
    doc_md=__doc__,
    tags=["snowpack"],
    default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
    params={
        "table": Param(
            "demo.flights",
            type="string",
            pattern=r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)+$",
            title="Table",
            description="database.table, as the catalog has it",
        ),
        "column": Param(
            "flight_date",
            type="string",
            pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
            title="Column",
            description="The date or timestamp of a row",
        ),
        "min_input_files": Param(
            2,
            type="integer",
            minimum=1,
            title="Minimum input files",
            description="Rewrite a partition with at least this many files; a day has few, so fewer than Iceberg's 5",
        ),
    },
):
    MaintainTableOperator(
        task_id="maintain",
        table="{{ params.table }}",
        actions=["rewrite_data_files", "rewrite_position_delete_files"],
        # A date is compared with a timestamp as midnight, so these literals work for both types of column.
        where=(
            "{{ params.column }} >= DATE '{{ data_interval_start | ds }}' "
            "AND {{ params.column }} < DATE '{{ data_interval_end | ds }}'"
        ),
        options='{"rewrite_data_files": {"min_input_files": {{ params.min_input_files }}}}',
        if_locked="wait",
        wait_timeout=timedelta(hours=6),
    )
