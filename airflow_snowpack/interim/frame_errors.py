"""What can go wrong between rows and an interim table.

FrameError
├── UnwritableFrame   rows that Iceberg cannot keep
├── UnreadableTable   files that only Spark can read, asked for without Spark
├── UnreadableView    a view that only Spark can read, requested without Spark
├── UnfitForm         rows that the library which was asked for cannot hold
└── UnusableOutput    a task returns something that cannot be handed on like that
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError

if TYPE_CHECKING:
    from airflow_snowpack.interim.refs import ViewRef


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

    def __init__(self, view: ViewRef, problem: object) -> None:
        super().__init__(
            f"The view {view.to_json()!r:.300} cannot be read without Spark: {_first_line(problem)}. Receive it as a Spark "
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
