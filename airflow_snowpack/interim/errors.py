"""Errors of interim tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.errors import Kind, SnowpackError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_snowpack.interim.names import Producer


class InterimError(SnowpackError, kind=Kind.FAILED):
    """Base class of the errors of interim tables."""


class InvalidInterimRef(InterimError, kind=Kind.INVALID):
    """Invalid reference to an interim table."""

    def __init__(self, value: object, problem: str) -> None:
        super().__init__(f"{value!r:.200} is not a valid reference to an interim table: {problem.rstrip('.')}.")


class InvalidInterimTable(InterimError, kind=Kind.INVALID):
    """Invalid declaration of an interim table."""

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(f"{field} = {value!r:.200} is not usable: {problem.rstrip('.')}.")


class InterimTableGone(InterimError, kind=Kind.REFUSED):
    """The interim table was dropped."""

    def __init__(self, table: str, producer: Producer) -> None:
        mapped = f" (map index {producer.map_index})" if producer.map_index >= 0 else ""
        super().__init__(
            f"The interim table {table} was dropped, since all of its consumers had finished. Clear its producer too, the task "
            f"{producer.task_id!r}{mapped} of the run {producer.run_id!r} of the DAG {producer.dag_id!r}, with everything "
            "downstream, so that it writes the table again."
        )


class InterimTableNotFound(InterimError, kind=Kind.NOT_FOUND):
    """Interim table not found."""

    def __init__(self, wanted: str, where: str = "") -> None:
        super().__init__(f"There is no interim table {wanted!r}{where}. List them with `airflow snowpack interim list`.")


class InterimTableInUse(InterimError, kind=Kind.CONFLICT):
    """The interim table is in use.

    :ivar needed_by: the consumers that have not finished, as ``dag/run/task``.
    """

    def __init__(self, table: str, needed_by: Sequence[str]) -> None:
        self.needed_by = tuple(needed_by)
        shown = ", ".join(self.needed_by[:5]) + (f" and {len(needed_by) - 5} more" if len(needed_by) > 5 else "")
        super().__init__(f"The interim table {table} is needed by {shown}. Wait for them, or mark them as finished in Airflow.")


class InterimTableNotStuck(InterimError, kind=Kind.CONFLICT):
    """The interim table can still be dropped."""

    def __init__(self, table: str, reason: str, advice: str) -> None:
        super().__init__(
            f"The record of the interim table {table} is kept, since {reason}. {advice}: only the record of a table that no "
            "collector can drop, for example because its catalog is gone for good, can be deleted. "
            "`airflow snowpack interim show` explains its state."
        )


class InterimReadingLost(InterimError, kind=Kind.CONFLICT):
    """The lease on the tables that were read has expired."""

    def __init__(self, attempt: str, tables: Sequence[str]) -> None:
        super().__init__(
            f"{attempt} is no longer on record as a reader of {', '.join(tables)}: its lease had expired, and Airflow reported "
            "that this task instance had ended. This attempt stops without any outputs; the next one starts from the beginning."
        )


class StaleInterimAttempt(InterimError, kind=Kind.CONFLICT):
    """Another attempt has replaced this one."""

    def __init__(self, output: str) -> None:
        super().__init__(f"Another attempt has taken over {output}, or this one was declared dead. It stops without any outputs.")


class DropFailed(InterimError, kind=Kind.FAILED):
    """The interim table could not be dropped."""

    def __init__(self, table: str, cause: BaseException) -> None:
        reason = f"{type(cause).__name__}: {_first_line(cause)}"
        super().__init__(f"The interim table {table} could not be dropped, and is retried: {reason}.")


class ForeignNamespace(InterimError, kind=Kind.MISCONFIGURED):
    """Another store uses the namespace of interim tables."""

    def __init__(self, catalog: str, namespace: str, owner: str) -> None:
        super().__init__(
            f"The namespace {namespace!r} of the catalog {catalog!r} has the interim tables of another store ({owner}), and only "
            "that store has the record of which are needed. Set another namespace for this installation in [snowpack] "
            "interim_namespace; or, if that store is gone for good, take over its namespace: `airflow snowpack interim adopt`."
        )


class UnmarkedNamespace(InterimError, kind=Kind.MISCONFIGURED):
    """The catalog cannot mark the namespace of interim tables."""

    def __init__(self, catalog: str, namespace: str) -> None:
        super().__init__(
            f"The namespace {namespace!r} of the catalog {catalog!r} cannot be marked as this store's, since the catalog keeps "
            "no properties of namespaces, or refuses to change them. Give each installation its own namespace in [snowpack] "
            "interim_namespace."
        )


class FrameError(SnowpackError, kind=Kind.FAILED):
    """Base class of the errors between rows and an interim table."""


class UnwritableFrame(FrameError, kind=Kind.INVALID):
    """Iceberg cannot store these rows.

    :param advice: what to do, as a sentence.
    :param column: the column, or the field inside a column, that cannot be stored: ``legs.element.at``.
    """

    def __init__(self, problem: object, advice: str = "", *, column: str = "") -> None:
        where = f"the column {column}: " if column else ""
        super().__init__(f"These rows cannot become a table: {where}{_first_line(problem)}." + (f" {advice}." if advice else ""))


class UnreadableTable(FrameError, kind=Kind.INVALID):
    """The table can only be read with Spark."""

    def __init__(self, path: str, problem: object) -> None:
        self.problem = f"the file {path} cannot be read without Spark: {_first_line(problem)}"
        super().__init__(
            f"The file {path} cannot be read without Spark: {_first_line(problem)}. Receive the table as a Spark "
            "DataFrame (leave out the parameter's annotation), and do not modify interim tables."
        )


class UnreadableView(FrameError, kind=Kind.INVALID):
    """The view can only be read with Spark."""

    def __init__(self, view: Mapping[str, Any], problem: object) -> None:
        super().__init__(
            f"The view {view!r:.300} cannot be read without Spark: {_first_line(problem)}. Receive it as a Spark "
            "DataFrame (leave out the parameter's annotation) and call .toArrow() or .toPandas() on it; or receive the whole "
            "table and filter its rows in the task."
        )


class UnfitForm(FrameError, kind=Kind.INVALID):
    """The annotated library cannot represent these rows."""

    def __init__(self, form: str, problem: object) -> None:
        super().__init__(
            f"These rows cannot be converted to {form}: {_first_line(problem)}. Annotate the parameter with pa.Table, which can."
        )


class UnusableOutput(FrameError, kind=Kind.INVALID):
    """The task's return value cannot become an interim table."""

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(f"{field} = {value!r:.200} cannot become an interim table: {problem.rstrip('.')}.")


def is_panic(problem: BaseException) -> bool:
    """Return whether a Rust library, such as Polars, has panicked, which raises no ``Exception``."""
    return type(problem).__name__ == "PanicException"


def _first_line(problem: object) -> str:
    return (str(problem).splitlines() or [""])[0].rstrip(".")
