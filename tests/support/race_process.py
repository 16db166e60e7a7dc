"""What the processes of the race tests do: ``python race_process.py <store url> '[["submit", "db.t"], ["end", "sweep"]]'``.

Forks a process for each part. Each opens the store, and all begin once the last is ready. Prints the list of what they return as
one line of JSON.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from threading import Barrier
from typing import Any

from bounded import PATIENCE_S

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import JobAlreadyFinished, Jobs, JobStatus, TableLocked
from airflow_snowpack.store import Actor, open_store


def submit(jobs: Jobs, table: str) -> Any:
    try:
        return {"won": jobs.submit(TableName.parse(table, catalog="lake"), ["expire_snapshots"]).job_id}
    except TableLocked as refused:
        lock = refused.lock
        return {"holder": lock.holder, "since": lock.acquired_at.isoformat(), "until": lock.expires_at.isoformat()}


def ask(jobs: Jobs, table: str, key: str) -> Any:
    asked = jobs.submit_once(
        TableName.parse(table, catalog="lake"), ["expire_snapshots"], key=key, actor=Actor("vera", via="api")
    )
    return {"job_id": asked.job.job_id, "again": asked.again}


def drain(jobs: Jobs, worker_id: str) -> Any:
    done = []
    while claim := jobs.claim(worker_id):
        assert jobs.finish(claim, JobStatus.COMPLETED, [])
        done.append(claim.job.job_id)
    return done


def end(jobs: Jobs, how: str) -> Any:
    """Claim and finish, cancel, or sweep whatever there is, again and again, until every job is terminal."""
    ended = []
    while active := [job for job in jobs.list(limit=1000) if not job.status.is_terminal]:
        if how == "sweep":
            ended += jobs.sweep().failed
        elif how == "finish":
            claim = jobs.claim("w")
            if claim is not None and jobs.finish(claim, JobStatus.COMPLETED, []):
                ended.append(claim.job.job_id)
            elif claim is not None:
                jobs.release_lock(claim)
        else:
            try:
                ended.append(jobs.cancel(active[-1].job_id).job_id)
            except JobAlreadyFinished:
                continue
    return ended


def remember(start: Barrier) -> None:
    """Keep the barrier of all processes in this one."""
    globals()["start"] = start


def take_part(url: str, what: str, *arguments: str) -> Any:
    with Jobs(open_store(url)) as jobs:
        globals()["start"].wait(PATIENCE_S)
        return {"submit": submit, "ask": ask, "drain": drain, "end": end}[what](jobs, *arguments)


def main(url: str, parts: str) -> None:
    fork = get_context("fork")
    wanted = json.loads(parts)
    with ProcessPoolExecutor(len(wanted), fork, remember, (fork.Barrier(len(wanted)),)) as processes:
        futures = [processes.submit(take_part, url, *part) for part in wanted]
    print(json.dumps([future.result() for future in futures]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
