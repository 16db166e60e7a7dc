"""On a cluster whose executors die, lose their files or dawdle, each build is whole, from attempts that never met.

One driver and one S3 server serve all of these tests, as starting a cluster takes longer than they do. The server sees each
request first: that is where a test kills an executor in the middle of a write, or holds a task up.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from s3_server import BUCKET, Request, s3_server

from airflow_snowpack.builds.errors import ShardCoverageError
from airflow_snowpack.builds.layout import RECORD
from airflow_snowpack.builds.model import KeyType, ShardAttemptResult, hash_shard
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.selection import read_attempts, select_winners

ROWS, SHARDS = 2000, 4
PATIENCE_S = 200.0
pytestmark = pytest.mark.timeout(4 * PATIENCE_S)  # the first test starts three JVMs, which takes long on a busy machine
DRIVER = Path(__file__).parents[2] / "support" / "cluster_builds.py"


class Cluster:
    """The driver, and what happens to requests of its tasks."""

    def __init__(self, folder: Path) -> None:
        self.before: Callable[[Request], None] = lambda request: None
        self.scratch = folder / "scratch"
        self.scratch.mkdir()

    def observe(self, request: Request) -> bool:
        if request.method in ("PUT", "POST"):
            self.before(request)
        return True

    def start(self, options: dict[str, Any]) -> None:
        self.storage = Storage(f"s3://{BUCKET}/flights", options)
        command = [sys.executable, str(DRIVER), self.storage.url, str(self.scratch)]
        self.driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.send(json.dumps(options))
        assert self.receive() == "ready"

    def send(self, line: str) -> None:
        assert self.driver.stdin is not None
        self.driver.stdin.write(line + "\n")
        self.driver.stdin.flush()

    def receive(self) -> str:
        assert self.driver.stdout is not None
        return self.driver.stdout.readline().strip()

    def build(self, run_id: str) -> None:
        self.send(f"{run_id} {ROWS} {SHARDS}")
        assert self.receive() == f"done {run_id}"

    def stop(self) -> None:
        if self.driver.poll() is None:
            for process in psutil.Process(self.driver.pid).children(recursive=True):
                process.kill()
            self.driver.kill()
        self.driver.wait()


@pytest.fixture(scope="module")
def started_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    with s3_server(cluster.observe) as options:
        # Else a client asks again after three seconds, and no task can be held up.
        cluster.start(options | {"request_timeout": 2 * PATIENCE_S})
        yield cluster
        cluster.stop()


@pytest.fixture
def cluster(started_cluster: Cluster, record_property: Callable[[str, int], None]) -> Iterator[Cluster]:
    record_property("faults", 1)  # each test injects one
    yield started_cluster
    started_cluster.before = lambda request: None


def executor_of(request: Request) -> psutil.Process:
    """The JVM whose Python worker asks; between them is Spark's daemon that forks the workers."""
    return next(parent for parent in request.client().parents() if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline()))


def winners_of(cluster: Cluster, run_id: str) -> tuple[ShardAttemptResult, ...]:
    """The winners, after a look at all that must hold for any build."""
    attempts = read_attempts(cluster.storage, run_id)
    assert len({attempt.url for attempt in attempts}) == len(attempts)
    winners = select_winners(attempts, SHARDS, run_id)
    rows = {winner.shard_id: content(cluster.storage, winner) for winner in winners}
    assert sorted(row["id"] for shard in rows.values() for row in shard) == [number * 7 for number in range(ROWS)]
    for shard_id, shard in rows.items():
        assert all(
            hash_shard(row["id"], KeyType.INTEGER, SHARDS) == shard_id and row["name"] == f"n{row['id'] // 7}" for row in shard
        )
    return winners


def content(storage: Storage, attempt: ShardAttemptResult) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(pa.BufferReader(storage.read(str(attempt.url)))).to_pylist()
    return rows


def folders(cluster: Cluster, run_id: str) -> set[str]:
    """The folders of all attempts that have written anything."""
    return {found.path.rpartition("/")[0] + "/" for found in cluster.storage.objects(f"data/{run_id}/")}


def losers(cluster: Cluster, run_id: str, winners: tuple[ShardAttemptResult, ...]) -> set[str]:
    return folders(cluster, run_id) - {str(winner.url).rpartition("/")[0] + "/" for winner in winners}


def test_an_executor_that_is_killed_while_it_writes(cluster: Cluster) -> None:
    killed: list[int] = []

    def kill(request: Request) -> None:
        if not killed and "/killed/shard=00001/" in request.path and "shard.parquet" in request.path:
            executor = executor_of(request)
            killed.append(executor.pid)
            executor.kill()

    cluster.before = kill
    cluster.build("killed")
    assert killed
    winners = winners_of(cluster, "killed")
    assert winners[1].rows > 0


def test_a_stage_that_is_tried_again_while_a_task_of_it_still_writes(cluster: Cluster) -> None:
    """Its shuffle files vanish while its first task is held; Spark then runs that one again, with the same attempt number."""
    chosen = threading.Event()
    held: list[str] = []

    def lose_and_hold(request: Request) -> None:
        folder, _, name = request.path.rpartition("/")
        if "/retried/" in request.path and name == RECORD and (not held or folder == held[0]):
            if not held:
                held.append(folder)
                for file in cluster.scratch.rglob("shuffle_*"):
                    file.unlink(missing_ok=True)
            assert chosen.wait(PATIENCE_S)

    cluster.before = lose_and_hold
    cluster.build("retried")
    winners = winners_of(cluster, "retried")
    loser = held[0].removeprefix("/lake/flights/") + "/"
    assert loser in losers(cluster, "retried", winners)
    shard_folder, _, attempt = loser.rpartition("attempt=")
    assert attempt.startswith("00-")
    assert len([folder for folder in folders(cluster, "retried") if folder.startswith(f"{shard_folder}attempt=00-")]) >= 2
    chosen.set()
    assert winners_of(cluster, "retried")


def test_a_copy_replaces_a_slow_task(cluster: Cluster) -> None:
    finished = threading.Event()
    slow: list[str] = []

    def dawdle(request: Request) -> None:
        folder, _, name = request.path.rpartition("/")
        if "/copied/shard=00002/" in request.path and name == RECORD:
            if not slow:
                slow.append(folder)
            if folder == slow[0]:
                assert finished.wait(PATIENCE_S)
            else:
                finished.set()

    cluster.before = dawdle
    cluster.build("copied")
    assert finished.is_set()
    winners = winners_of(cluster, "copied")
    assert losers(cluster, "copied", winners)
    numbers = {folder.partition("attempt=")[2][:2] for folder in folders(cluster, "copied") if "/shard=00002/" in folder}
    assert numbers >= {"00", "01"}, "a copy is Spark's next attempt"


def test_a_killed_driver_leaves_no_process_and_no_build(cluster: Cluster) -> None:
    everybody = psutil.Process(cluster.driver.pid).children(recursive=True)
    written, compared = threading.Event(), threading.Event()

    def kill(request: Request) -> None:
        if "/orphaned/" not in request.path or not request.path.endswith(RECORD):
            return
        if written.is_set():  # of an executor that has not noticed yet, which may take longer than the other shards
            compared.wait(PATIENCE_S)
        written.set()
        cluster.driver.kill()

    cluster.before = kill
    cluster.send(f"orphaned {ROWS} {SHARDS}")
    assert cluster.receive() == ""
    assert written.is_set()
    _, alive = psutil.wait_procs(everybody, timeout=PATIENCE_S)
    assert alive == []
    with pytest.raises(ShardCoverageError, match="no attempt at shard"):
        select_winners(read_attempts(cluster.storage, "orphaned"), SHARDS, "orphaned")
    compared.set()
    assert winners_of(cluster, "killed")
