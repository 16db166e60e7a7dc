"""What the processes of the race tests do: ``python race_process.py <store url> <what> <arguments …>``.

Each says ``ready``, waits for a line on its standard input, does its part and says how it went as one JSON line.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Actor, Desk, JobAlreadyFinished, Jobs, JobStatus, TableLocked
from airflow_snowpack.store import open_store


def submit(jobs: Jobs, table: str) -> Any:
    try:
        return {"won": jobs.submit(TableName.parse(table, catalog="lake"), ["expire_snapshots"]).job_id}
    except TableLocked as refused:
        lock = refused.lock
        return {"holder": lock.holder, "since": lock.acquired_at.isoformat(), "until": lock.expires_at.isoformat()}


def ask(jobs: Jobs, table: str, key: str) -> Any:
    asked = Desk(jobs, Actor("vera", via="api")).submit(TableName.parse(table, catalog="lake"), ["expire_snapshots"], key=key)
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


def main(url: str, what: str, *arguments: str) -> None:
    with Jobs(open_store(url)) as jobs:
        print("ready", flush=True)
        sys.stdin.readline()
        part = {"submit": submit, "ask": ask, "drain": drain, "end": end}[what]
        print(json.dumps(part(jobs, *arguments)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
