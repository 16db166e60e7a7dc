"""SQL statements in one session of Spark, whatever connects this process to it.

    >>> statements = SessionStatements(session)                   # local, a cluster's driver, or Spark Connect
    >>> statements.rows("SELECT :number AS number", {"number": 1})
    [{'number': 1}]

Maintenance needs nothing else of Spark, so an engine that has no data frames can run it: it implements :class:`Statements`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from airflow_snowpack.spark.literals import with_constants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNDEFINED = "<undefined>"
"""How Spark writes that a setting has no value."""
FILE_PATH = "file_path"
LAST_MODIFIED = "timestamp_seconds(0) AS last_modified"


class Statements(ABC):
    """Runs statements in a session, one at a time.

    Calls raise what the client raises; :class:`SparkWork` translates it. A statement has named markers such as ``:path`` for its
    arguments: strings, numbers, booleans and aware datetimes.

    :ivar stamps_commits: whether :meth:`stamping` has an effect.
    """

    stamps_commits: bool = False

    @abstractmethod
    def rows(self, sql: str, args: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Run a statement and return its rows by column; of a statement without rows, such as a DDL's, an empty list."""

    @abstractmethod
    def ordered_rows(self, sql: str, args: Mapping[str, Any], column: str) -> Iterator[dict[str, Any]]:
        """Run a statement, and return its rows in the order of a column."""

    @abstractmethod
    def view_of_files(self, paths: Sequence[str]) -> str:
        """Create a temporary view of ``file_path`` and ``last_modified``, as of 1970; return its name."""

    @abstractmethod
    def setting(self, name: str) -> str | None:
        """Return a Spark setting; ``None`` if it has no value."""

    @abstractmethod
    def change(self, name: str, value: str | None) -> None:
        """Change a Spark setting of the session; ``None`` for its default."""

    @contextmanager
    def with_settings(self, conf: Mapping[str, str]) -> Iterator[None]:
        """Change settings for the block, and restore them afterwards, but not after a ``BaseException``.

        After a task's time limit, the statement may still run, and the next call on the same connection would wait for its end.
        """
        before: dict[str, str | None] = {}

        def restore() -> None:
            for name, earlier in before.items():
                self.change(name, earlier)

        try:
            for name, value in conf.items():
                before[name] = self.setting(name)
                self.change(name, value)
            yield
        except Exception:
            restore()
            raise
        restore()

    def stamping(self, properties: Mapping[str, str]) -> AbstractContextManager[None]:
        """Add properties to the summaries of the commits inside the block, if the engine can."""
        return nullcontext()

    # --- interruption, for SparkWork ---

    @abstractmethod
    def tag(self, tag: str) -> None:
        """Give the statements of this thread a tag from now on."""

    @abstractmethod
    def untag(self, tag: str) -> None:
        """Give the statements of this thread no such tag any more."""

    @abstractmethod
    def cancel(self, tag: str) -> None:
        """Cancel what runs with a tag, from another thread; repeated until it has ended."""

    def jobs_run(self, tag: str) -> int | None:
        """Return how many Spark jobs with a tag have run so far; ``None`` if unknown."""
        return None


class SparkServer(Protocol):
    """A server that continues a statement when its client is killed, so that its end must be made sure of.

    :ivar name: how other processes find its address, such as the id of an Airflow connection.
    """

    @property
    def name(self) -> str: ...

    def opened(self, job_id: str, attempt: int) -> AbstractContextManager[Statements]:
        """Return a session of this attempt at a job, for the block.

        :raises SparkUnavailable: the server does not answer.
        """
        ...


@dataclass(frozen=True)
class SessionStatements(Statements):
    """The statements of a Spark session, in this process or through Spark Connect."""

    session: SparkSession

    def rows(self, sql: str, args: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        return [row.asDict() for row in self._frame(sql, args or {}).collect()]

    def ordered_rows(self, sql: str, args: Mapping[str, Any], column: str) -> Iterator[dict[str, Any]]:
        # Spark runs a CALL at once, and here only its rows part by part.
        frame = self._frame(sql, args)
        return (row.asDict() for row in frame.orderBy(column).toLocalIterator())

    def view_of_files(self, paths: Sequence[str]) -> str:
        view = new_view()
        frame = self.session.createDataFrame([(path,) for path in paths], f"{FILE_PATH} STRING")
        frame.selectExpr(FILE_PATH, LAST_MODIFIED).createOrReplaceTempView(view)
        return view

    def setting(self, name: str) -> str | None:
        # Any other default would be checked against the setting's type.
        value = self.session.conf.get(name, UNDEFINED)
        return None if value == UNDEFINED else value

    def change(self, name: str, value: str | None) -> None:
        if value is None:
            self.session.conf.unset(name)
        else:
            self.session.conf.set(name, value)

    @property
    def stamps_commits(self) -> bool:  # type: ignore[override]  # known only by the session
        return not is_connect(self.session)

    def stamping(self, properties: Mapping[str, str]) -> AbstractContextManager[None]:
        return _stamping(self.session, properties) if self.stamps_commits else nullcontext()

    def tag(self, tag: str) -> None:
        if is_connect(self.session):
            self.session.addTag(tag)
        else:
            self.session.sparkContext.addJobTag(tag)

    def untag(self, tag: str) -> None:
        if is_connect(self.session):
            self.session.removeTag(tag)
        else:
            self.session.sparkContext.removeJobTag(tag)

    def cancel(self, tag: str) -> None:
        if is_connect(self.session):
            self.session.interruptTag(tag)
        else:
            self.session.sparkContext.cancelJobsWithTag(tag)

    def jobs_run(self, tag: str) -> int | None:
        if is_connect(self.session):
            return None
        tracker = self.session.sparkContext._jsc.sc().statusTracker()
        return len(tracker.getJobIdsForTag(tag))

    def _frame(self, sql: str, args: Mapping[str, Any]) -> DataFrame:
        if args and self.session.version < "4.1":  # earlier versions bind arguments of a procedure wrongly, or not at all
            return self.session.sql(with_constants(sql, args))
        return self.session.sql(sql, args=dict(args))


def is_connect(session: SparkSession) -> bool:
    """Return whether the session is a client of a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def new_view() -> str:
    """Return the name of a new temporary view, which ends with its session."""
    return f"snowpack_files_{uuid4().hex}"


@contextmanager
def _stamping(session: SparkSession, properties: Mapping[str, str]) -> Iterator[None]:
    """Procedures ignore Spark's setting for such properties, so they are set in Iceberg's ``EnvironmentContext``, which is global
    to the JVM. They are removed as :meth:`Statements.with_settings` restores settings."""
    jvm: Any = session.sparkContext._jvm
    context = jvm.org.apache.iceberg.EnvironmentContext
    for key, value in properties.items():
        context.put(key, value)
    try:
        yield
    except Exception:
        _unstamp(context, properties)
        raise
    _unstamp(context, properties)


def _unstamp(context: Any, properties: Mapping[str, str]) -> None:
    from py4j.protocol import Py4JError

    try:
        for key in properties:
            context.remove(key)
    except (Py4JError, OSError):
        return  # the JVM is gone, and the stamp with it
