"""What can go wrong in the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.errors import Kind, SnowpackError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class AirflowFailed(SnowpackError, kind=Kind.FAILED):
    """A command of Airflow ended with an error."""

    def __init__(self, command: Sequence[str], exit_code: int, log: Path, tail: Sequence[str]) -> None:
        lines = "\n".join(tail)
        super().__init__(f"`airflow {' '.join(command)}` ended with exit code {exit_code}. Its log, {log}, ends with:\n{lines}")


class NoDags(SnowpackError, kind=Kind.MISCONFIGURED):
    """The example DAGs are missing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"There are no example DAGs at {folder}. Run the demo from a checkout of the repository: make demo.")


class DemoRuns(SnowpackError, kind=Kind.CONFLICT):
    """Another demo uses the folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"Another demo is running in {folder}. Wait for it to end, or name another folder with --home.")


class NotADemoFolder(SnowpackError, kind=Kind.INVALID):
    """A folder that the demo would have to empty, and that is not its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} is not empty, and no demo or cluster made it. Name an empty or a new folder with --home.")


class JobMissing(SnowpackError, kind=Kind.FAILED):
    """The DAG ran, and the store has no job of it."""

    def __init__(self, table: str, log: Path) -> None:
        super().__init__(f"The DAG ended, but the store has no job for {table}. See {log}.")
