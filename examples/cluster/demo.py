"""``python -m examples.cluster.demo``, which is ``make cluster-demo``: the demo on a cluster of its own, read back by DuckDB.

The table is on the OAuth2 REST catalog and S3, Airflow on Postgres; the DAG queues a job, which a worker runs on Spark Connect.
The exit code is 0 only if the job completed and PyIceberg, Spark and DuckDB read the same rows as before it. The last line of the
output is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from airflow_snowpack.errors import SnowpackError
from examples.cluster.airflow import AirflowProcesses
from examples.cluster.cluster import Cluster
from examples.cluster.errors import DagFailed
from examples.cluster.file_age import set_modified
from examples.cluster.parts import parts_in_order
from examples.cluster.read_with_duckdb import read_with_duckdb
from examples.cluster.seaweedfs import SeaweedFS
from examples.cluster.server_list import show_part, show_servers
from examples.demo.local_airflow import adopt_environment
from examples.demo.measure import checksum
from examples.demo.run import TABLE, WHOLE_YEAR, Demo, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

HOME = Path(__file__).parents[2] / ".state" / "cluster-demo"
PARTS = ("airflow", "worker")
WIDTH_OF_A_LOG = 160
POLL_SECONDS = 0.5
ENDED = ("success", "failed")


class RunningAirflow:
    """The cluster's Airflow, as the demo uses it."""

    def __init__(self, airflow: AirflowProcesses) -> None:
        self._airflow = airflow
        self.log = airflow.home

    def adopt(self) -> None:
        adopt_environment(self._airflow.environment)

    def migrate(self) -> None:
        """Do nothing: the database is there."""

    def run_dag(self, dag_id: str, conf: Mapping[str, Any], *, meanwhile: Callable[[], None]) -> None:
        """Start a run and wait for its end; raises :class:`DagFailed` if it is no success."""
        run_id = self._airflow.trigger(dag_id, dict(conf))
        while (state := self._airflow.state_of(dag_id, run_id)) not in ENDED:
            meanwhile()
            time.sleep(POLL_SECONDS)
        if state != "success":
            raise DagFailed(dag_id, run_id, self.log)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(prog="make cluster-demo", description="The demo on the production shape.")
    parser.add_argument("--days", type=int, default=WHOLE_YEAR, choices=range(1, WHOLE_YEAR + 1), metavar="1..365")
    parser.add_argument("--home", type=Path, default=HOME, help="the folder of the cluster, emptied first")
    given = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_LOG)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Cluster(given.home.absolute()).started(parts_in_order(PARTS), partial(show_part, console)) as cluster:
            show_servers(console, cluster.parts)
            outcome, read = run(cluster, given.days, console)
    except SnowpackError as error:
        print(f"The demo failed: {error}", file=sys.stderr)
        return 1
    same = read == (outcome.after.rows, outcome.after.checksum)
    console.print(f"DuckDB reads {read[0]:,} rows with the checksum {read[1]}: {'the same' if same else 'NOT the same'}.")
    print(
        json.dumps(json.loads(outcome.to_json()) | {"duckdb": {"rows": read[0], "checksum": read[1], "same": same}}), flush=True
    )
    # It is the last line, whatever libraries print while the process ends.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return 0 if outcome.is_good and same else 1


def run(cluster: Cluster, days: int, console: Console) -> tuple[Outcome, tuple[int, str]]:
    """Run the demo on the cluster; return its outcome, and the rows and the checksum that DuckDB reads."""
    s3, airflow = cluster.part(SeaweedFS), RunningAirflow(cluster.part(AirflowProcesses))
    outcome = Demo(cluster.home, days, console, airflow, partial(set_modified, s3.filer)).run()
    return outcome, checksum(read_with_duckdb(s3, TABLE, cluster.home / "duckdb"))


if __name__ == "__main__":
    sys.exit(main())
