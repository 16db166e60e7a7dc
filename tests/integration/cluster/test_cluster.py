"""``make cluster`` with its cheap parts: it starts them, prints where they are, stops them, and leaves no process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from bounded import PATIENCE_S, started

from examples.cluster.cluster import recorded_processes, stop_cluster

REPOSITORY = Path(__file__).parents[3]
CLUSTER = (sys.executable, "-m", "examples.cluster")
URL = re.compile(r"(S3|REST catalog with \w+[\w ]*): (http://127\.0\.0\.1:\d+)")


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that PostgreSQL's user can reach, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="snowpack-cluster-") as folder:
        yield Path(folder) / "cluster"
        stop_cluster(Path(folder) / "cluster")  # of a test that has failed


def printed_start(cluster: subprocess.Popen[str]) -> str:
    """Return what the cluster prints until it runs; a part that no registry serves is a reason to skip the test."""
    assert cluster.stdout is not None
    assert cluster.stderr is not None
    output = ""
    while "Stop with Ctrl-C" not in output:
        line = cluster.stdout.readline()
        if not line:
            pytest.fail(f"{output}\n{cluster.stderr.read()}")
        output += line
    if "is missing" in output:
        pytest.skip(output)
    return output


def recorded_pids(home: Path) -> list[int]:
    return [each["pid"] for each in json.loads((home / "processes.json").read_text())["servers"]]


def stop(home: Path) -> str:
    """Run the command that stops the cluster; return what it prints."""
    command = [*CLUSTER, "stop", "--home", home]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout


@pytest.mark.timeout(1500)  # the first run on a machine downloads 100 MB
def test_parts_start_with_what_they_need_and_all_stop_with_the_command(home: Path) -> None:
    command = [*CLUSTER, "s3", "rest", "--home", home]
    with started(command, patience_s=1200, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as cluster:
        output, pids = printed_start(cluster), recorded_pids(home)
        places = dict(URL.findall(output))

        assert len(pids) == 3
        assert all(f" {pid} " in output for pid in pids)
        assert httpx.get(f"{places['S3']}/lake").status_code == 403  # without a key
        assert httpx.get(f"{places['REST catalog with vended keys']}/v1/namespaces").json()["namespaces"] == []
        assert httpx.get(f"{places['REST catalog with OAuth2']}/v1/namespaces").status_code in (401, 403)

        second = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert second.returncode == 1
        assert f"A cluster runs in {home}." in second.stderr

        assert stop(home) == "Stopped: SeaweedFS, PostgreSQL, Iceberg's REST catalog.\n"
        assert cluster.wait(PATIENCE_S) == 0
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_the_servers_of_a_cluster_that_was_killed_stop_with_the_command(home: Path) -> None:
    command = [*CLUSTER, "s3", "--home", home]
    with started(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as cluster:
        printed_start(cluster)
        cluster.kill()
        cluster.wait(PATIENCE_S)

        assert [server.name for server in recorded_processes(home)[1]] == ["SeaweedFS"]
        assert stop(home) == "Stopped: SeaweedFS.\n"
        assert recorded_processes(home) == (None, [])
        assert stop(home) == f"No cluster runs in {home}.\n"
