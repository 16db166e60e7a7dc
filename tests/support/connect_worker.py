"""A task that compacts a table through Spark Connect: ``python connect_worker.py <store url> <home of the catalog> <server>``.

It says ``working`` when it has the job, and is killed by the test.
"""

from __future__ import annotations

import sys
from pathlib import Path

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.jobs import Attempt, Jobs
from airflow_snowpack.maintenance import Action, SparkEngine
from airflow_snowpack.spark import ConnectServer
from airflow_snowpack.store import open_store

TABLE = TableName("lake", "db", "t")
OWNER = "dag/run/task"
# A commit for each partition, so that work that goes on is seen in the table.
EVERY_PARTITION = {"min_input_files": 2, "partial_progress": True, "partial_progress_max_commits": 1000}


def main(url: str, home: str, server: str) -> None:
    jobs = Jobs(open_store(url))
    options = {"rewrite_data_files": {**EVERY_PARTITION, "max_concurrent_file_group_rewrites": 1}}
    claim = jobs.submit_and_claim(TABLE, [Action.REWRITE_DATA_FILES], "try 1", owner=OWNER, options=options)
    engine = SparkEngine(ConnectServer("the_cluster", server), CatalogConfig.embedded(Path(home)).load)
    print("working", claim.job.job_id, flush=True)
    Attempt(jobs, claim, engine).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
