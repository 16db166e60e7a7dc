"""What can go wrong with a cluster on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.errors import Kind, SnowpackError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class ServerFailed(SnowpackError, kind=Kind.FAILED):
    """A server ended, or did not answer in time."""

    def __init__(self, name: str, problem: str, log: Path, tail: Sequence[str]) -> None:
        lines = "\n".join(tail)
        super().__init__(f"{name} {problem}. Its log, {log}, ends with:\n{lines}")


class JarsMissing(SnowpackError, kind=Kind.UNAVAILABLE):
    """Jars cannot be downloaded."""

    def __init__(self, name: str, missing: Sequence[str], log: Path) -> None:
        which = f": {', '.join(missing)}" if missing else ""
        super().__init__(f"The jars of {name} could not be downloaded from Maven Central{which}. See {log}.")


class UnknownPart(SnowpackError, kind=Kind.INVALID):
    """There is no part of this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"The cluster has no part {name!r}. Its parts are {', '.join(known)}.")


class ClusterRuns(SnowpackError, kind=Kind.CONFLICT):
    """A cluster runs in the folder already."""

    def __init__(self, home: Path) -> None:
        super().__init__(
            f"A cluster runs in {home}. Stop it with `.venv/bin/python -m examples.cluster stop`, or name another folder."
        )


class DagFailed(SnowpackError, kind=Kind.FAILED):
    """A DAG run failed."""

    def __init__(self, dag_id: str, run_id: str, logs: Path) -> None:
        super().__init__(f"The run {run_id} of the DAG {dag_id} failed. The logs of its tasks are in {logs / 'logs'}.")


class NeededPartMissing(SnowpackError, kind=Kind.UNAVAILABLE):
    """A part needs another one that did not start."""

    def __init__(self, name: str, missing: Sequence[str]) -> None:
        super().__init__(f"The part {name} needs {', '.join(missing)}, which did not start.")
