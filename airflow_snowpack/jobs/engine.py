"""What a job needs of whatever does the work: the lifecycle knows this protocol and not Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_snowpack.jobs.model import ActionResult, Job


class Engine(Protocol):
    """Runs one action of a job at a time."""

    @property
    def server(self) -> str | None:
        """The name of the server that goes on with the work when this process is killed; ``None``: the work ends with it."""
        ...

    def run(self, job: Job, action: str) -> ActionResult:
        """Run the action to its end and tell how it went.

        Expected failures (a conflict, a failed Spark job, an interrupt) are results. What is raised ends the attempt as failed.
        """
        ...

    def interrupt(self) -> None:
        """Stop the running action for good, from another thread; calling it again, or with nothing running, is fine.

        After an interrupt, :meth:`run` starts nothing more.
        """
        ...
