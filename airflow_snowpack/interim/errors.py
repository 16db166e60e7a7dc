"""What can go wrong with an interim table.

InterimError
├── InvalidInterimRef      a value that looks like a ref and is none, or a view that cannot mean what it says
├── InvalidInterimTable    a declaration that cannot be used, with the field that is to blame
├── InterimTableGone       the table was dropped, or is about to be: its producer has to run again
├── InterimTableNotFound   no table of this id or name is known
├── InterimTableInUse      somebody wants to drop by hand what others still need
├── InterimTableNotStuck   somebody wants to forget what a collector has not failed to drop
├── InvalidInterimCursor   a place in the list that no page of it gave
├── InterimReadingLost     the reader was taken for dead: what it read may go at any moment
├── StaleInterimAttempt    the fence has moved: another attempt writes this output now
├── ForeignNamespace       another store's tables are where this installation's are to be
├── UnmarkedNamespace      the catalog keeps no mark that would say whose a namespace is
└── DropFailed             the catalog or its storage did not drop a table; it is tried again

FrameError
├── UnwritableFrame        rows that Iceberg cannot keep
├── UnreadableTable        files that only Spark can read, requested without Spark
├── UnreadableView         a view that only Spark can read, requested without Spark
├── UnfitForm              rows that the library of a parameter's annotation cannot hold
└── UnusableOutput         a task returns something that cannot be handed on like that
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.errors import SnowpackError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_snowpack.interim.names import Producer


class InterimError(SnowpackError):
    """The root of the room's errors."""


class InvalidInterimRef(InterimError):
    """A value that looks like a ref and is none, or a view that cannot mean what it says."""

    def __init__(self, value: object, problem: str) -> None:
        super().__init__(f"{value!r:.200} is not a usable ref of an interim table: {problem.rstrip('.')}.")


class InvalidInterimTable(InterimError):
    """A declaration that cannot be used.

    :ivar field: the parameter that is to blame.
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        self.field = field
        super().__init__(f"{field} = {value!r:.200} is not usable: {problem.rstrip('.')}.")


class InterimTableGone(InterimError):
    """The table was dropped, or is about to be.

    :ivar producer: the task instance that made it, and has to make it again.
    """

    def __init__(self, table: str, producer: Producer) -> None:
        self.producer = producer
        mapped = f" (map index {producer.map_index})" if producer.map_index >= 0 else ""
        super().__init__(
            f"The interim table {table} is gone: everything that was to read it had finished. "
            f"Clear its producer too, the task {producer.task_id!r}{mapped} of the run {producer.run_id!r} of the DAG "
            f"{producer.dag_id!r}, and with it everything downstream, so that it makes the table again."
        )


class InterimTableNotFound(InterimError):
    """No table of this id or name is known."""

    def __init__(self, asked: str, where: str = "") -> None:
        super().__init__(f"There is no interim table {asked!r}{where}. `airflow snowpack interim list` shows those there are.")


class InterimTableInUse(InterimError):
    """Somebody wants to drop by hand what others still need.

    :ivar needed_by: the consumers that are not through with it, as ``dag/run/task``.
    """

    def __init__(self, table: str, needed_by: Sequence[str]) -> None:
        self.needed_by = tuple(needed_by)
        shown = ", ".join(self.needed_by[:5]) + (f" and {len(needed_by) - 5} more" if len(needed_by) > 5 else "")
        super().__init__(f"The interim table {table} is needed by {shown}. Let them finish, or mark them as finished in Airflow.")


class InterimTableNotStuck(InterimError):
    """Somebody wants to forget what a collector has not failed to drop."""

    def __init__(self, table: str, reason: str, advice: str) -> None:
        super().__init__(
            f"The interim table {table} is not forgotten, since {reason}. {advice}: only what no collector could drop, as when "
            "its catalog is gone for good, is taken off the record. `airflow snowpack interim show` tells how it stands."
        )


class InvalidInterimCursor(InterimError):
    """A place in the list that no page of it gave."""

    def __init__(self, cursor: str) -> None:
        super().__init__(f"The cursor {cursor[:80]!r} is none that a page of interim tables gave. Begin again without one.")


class InterimReadingLost(InterimError):
    """The reader was taken for dead: what it read may go at any moment, so what it made of it cannot be trusted."""

    def __init__(self, holder: str, tables: Sequence[str]) -> None:
        super().__init__(
            f"{holder} is no longer on record as a reader of {', '.join(tables)}: its lease had run out, and Airflow had said "
            "that this task instance has ended. This attempt stops and hands nothing on; another one reads from the beginning."
        )


class StaleInterimAttempt(InterimError):
    """The fence has moved: another attempt writes this output now, so this one hands nothing on."""

    def __init__(self, held: str) -> None:
        super().__init__(f"Another attempt has taken over {held}, or this one was taken for dead; it stops and hands nothing on.")


class DropFailed(InterimError):
    """The catalog or its storage did not drop a table."""

    def __init__(self, table: str, cause: BaseException) -> None:
        reason = (str(cause).splitlines() or [""])[0].rstrip(".")
        super().__init__(f"The interim table {table} could not be dropped: {type(cause).__name__}: {reason}. It is tried again.")


class ForeignNamespace(InterimError):
    """Another store's interim tables are where this installation's are to be.

    :ivar owner: the other store's id.
    """

    def __init__(self, catalog: str, namespace: str, owner: str) -> None:
        self.owner = owner
        super().__init__(
            f"The namespace {namespace!r} of the catalog {catalog!r} holds the interim tables of another store ({owner}), and "
            "only that store knows which of them are needed. Give this installation a namespace of its own, in [snowpack] "
            "interim_namespace; or, if that store is gone for good, take its namespace over: `airflow snowpack interim adopt`."
        )


class UnmarkedNamespace(InterimError):
    """The catalog keeps no mark that would say whose a namespace is."""

    def __init__(self, catalog: str, namespace: str) -> None:
        super().__init__(
            f"The namespace {namespace!r} of the catalog {catalog!r} cannot be marked as this store's, since the catalog keeps "
            "no properties of namespaces, or refuses to change them. Give every installation a namespace of its own, in "
            "[snowpack] interim_namespace."
        )


class FrameError(SnowpackError):
    """The root of these errors."""


class UnwritableFrame(FrameError):
    """Rows that Iceberg cannot keep."""

    def __init__(self, problem: object) -> None:
        super().__init__(
            f"These rows cannot become a table: {_first_line(problem)}. Give every column a type that Iceberg has (no "
            "nanoseconds, no column of nothing but nulls without a type) and every value room in it."
        )


class UnreadableTable(FrameError):
    """A data file that cannot be read without Spark: no interim table is written like that.

    :ivar problem: what is wrong with it.
    """

    def __init__(self, path: str, problem: object) -> None:
        self.problem = f"the file {path} cannot be read without Spark: {_first_line(problem)}"
        super().__init__(
            f"The file {path} cannot be read without Spark: {_first_line(problem)}. Take the table as a DataFrame of "
            "Spark (leave the parameter's annotation out), and do not change interim tables."
        )


class UnreadableView(FrameError):
    """A view that only Spark can read, requested without Spark."""

    def __init__(self, view: Mapping[str, Any], problem: object) -> None:
        super().__init__(
            f"The view {view!r:.300} cannot be read without Spark: {_first_line(problem)}. Receive it as a Spark "
            "DataFrame (leave out the parameter's annotation) and call .toArrow() or .toPandas() on it; or receive the whole "
            "table and filter its rows in the task."
        )


class UnfitForm(FrameError):
    """Rows that the library which a parameter is annotated with cannot hold."""

    def __init__(self, form: str, problem: object) -> None:
        super().__init__(
            f"These rows cannot arrive as {form}: {_first_line(problem)}. Annotate the parameter pa.Table, which holds every row."
        )


class UnusableOutput(FrameError):
    """A task returns something that cannot be handed on like that.

    :ivar field: the argument or the output that is to blame.
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        self.field = field
        super().__init__(f"{field} = {value!r:.200} cannot be handed on: {problem.rstrip('.')}.")


def is_panic(problem: BaseException) -> bool:
    """Whether a library that is written in Rust, such as Polars, has given up on a value: it says so with no ``Exception``."""
    return type(problem).__name__ == "PanicException"


def _first_line(problem: object) -> str:
    return (str(problem).splitlines() or [""])[0].rstrip(".")
