"""Work on Spark that another thread can stop, and what really went wrong when it failed.

    >>> work = SparkWork()
    >>> rows = work.run(session, lambda: session.sql("CALL …").collect())      # in one thread
    >>> work.interrupt()                                                       # in another: run() raises SparkInterrupted

The invariant: after :meth:`SparkWork.interrupt` nothing new starts, and what runs is cancelled again and again until it has
ended. Once is not enough. A cancel reaches only the Spark jobs that are active at that moment, and a procedure goes from one job
to the next, works between them without any, and with partial progress takes a cancelled job for one failed file group. Job
groups and session tags do not reach a procedure's jobs at all, since it sets its own; job tags do.

:meth:`SparkWork.interrupt` only sets a flag: it may be called from a signal handler of the very thread that waits for Spark.

Py4J reports the outermost Java exception only, and pyspark turns some into its own classes. The reason, such as the
``ValidationException`` that makes a lost rewrite a conflict, is at the end of the chain of ``getCause()``.
"""

from __future__ import annotations

import logging
import re
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from airflow_snowpack.recurring import Recurring
from airflow_snowpack.redaction import redacted
from airflow_snowpack.spark.errors import JavaCause, ServerLost, SparkDied, SparkFailed, SparkInterrupted
from airflow_snowpack.spark.jvm import has_ended, why_gone
from airflow_snowpack.spark.statements import SessionStatements, Statements
from airflow_snowpack.tracing import span

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


T = TypeVar("T")

CANCEL_INTERVAL_S = 0.1
"""Between two looks for an interrupt, and between two cancels until the call has ended."""

# A chain of causes may in theory be a circle.
MAX_DEPTH = 20
CAUSED_BY = re.compile(r"^Caused by: (?P<class_name>[\w.$]+)(?:: (?P<message>.*))?$", re.MULTILINE)


class SparkWork:
    """Runs calls one after the other, until it is interrupted."""

    def __init__(self) -> None:
        self._tag = f"snowpack-{uuid4().hex}"
        self._interrupted = False
        self.calls = 0  # how many have begun
        self.lost = False  # a statement, with the connection to its server

    @property
    def interrupted(self) -> bool:
        return self._interrupted

    def interrupt(self) -> None:
        """Stop for good. Idempotent, returns at once, and fine with nothing running."""
        # No lock and no event here: the signal may have come while this very thread held one.
        self._interrupted = True

    def run(self, session: SparkSession | Statements, call: Callable[[], T]) -> T:
        """Run the call in this thread and return what it returns.

        :param session: where the call runs statements.
        :raises SparkInterrupted: it was interrupted, before it began or while it ran.
        :raises SparkFailed: Spark refused it or failed in it.
        """
        if self._interrupted:
            raise SparkInterrupted
        self.calls += 1
        statements = session if isinstance(session, Statements) else SessionStatements(session)
        ended = Event()
        watcher = Thread(target=self._cancel_until, args=(statements, ended), name=f"{self._tag}-interrupt", daemon=True)
        watcher.start()
        try:
            with span("snowpack.spark_call", call=self.calls):
                result = self._tagged(statements, call)
        except Exception as error:
            self.lost = self.lost or isinstance(error, ServerLost)
            raise
        except BaseException:
            # Ctrl-C, or a task runner that ends this thread: no thread waits for Spark any more.
            self._interrupted = True
            raise
        finally:
            ended.set()
            watcher.join()
        if self._interrupted:
            # A procedure with partial progress returns normally after a cancel, with some file groups missing.
            raise SparkInterrupted
        return result

    def jobs_run(self, statements: Statements) -> int | None:
        """How many Spark jobs the calls have run so far; ``None`` where that cannot be known."""
        return statements.jobs_run(self._tag)

    def _tagged(self, statements: Statements, call: Callable[[], T]) -> T:
        try:
            statements.tag(self._tag)
            result = self._untagging_errors(call, statements)
            statements.untag(self._tag)
        except Exception as error:
            if self._interrupted:
                raise SparkInterrupted from error
            if not isinstance(error, spark_errors()):
                raise
            raise translate(error) from error
        return result

    def _untagging_errors(self, call: Callable[[], T], statements: Statements) -> T:
        try:
            return call()
        except Exception:
            # Not for a BaseException: it may have left the answer to this call unread on the thread's connection to the JVM.
            statements.untag(self._tag)
            raise

    def _cancel_until(self, statements: Statements, ended: Event) -> None:
        over, problem = False, Recurring(log)
        while not over:
            over = ended.wait(CANCEL_INTERVAL_S)
            if not self._interrupted:
                continue
            try:
                statements.cancel(self._tag)
                problem.passed()
            except Exception as error:  # noqa: BLE001 - whatever went wrong with one cancel, the next one is the only remedy
                problem.failed(error, "A cancel of the Spark work %s failed and is repeated", self._tag)


def spark_errors() -> tuple[type[Exception], ...]:
    """What a call of Spark raises."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (Py4JError, PySparkException, ConnectionError)


def java_causes(error: BaseException) -> tuple[JavaCause, ...]:
    """The chain of Java exceptions behind a Python exception, the outermost first; empty when there is none.

    A Spark Connect client gets no Java objects, only the text that the server sends.
    """
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return _connect_causes(error)
    causes: list[JavaCause] = []
    while java is not None and len(causes) < MAX_DEPTH:
        causes.append(JavaCause(java.getClass().getName(), java.getMessage() or ""))
        java = java.getCause()
    return tuple(causes)


def translate(error: BaseException) -> SparkFailed:
    """The same failure with the whole chain of causes as its message, without secrets; a lost connection to the JVM includes why
    the JVM ended."""
    if _is_lost(error):
        return SparkDied(redacted(why_gone(error)))
    causes = _safe_causes(error)
    if not causes:
        return SparkFailed(redacted(f"{type(error).__name__}: {error}"))
    return of_causes(causes)


def of_causes(causes: tuple[JavaCause, ...]) -> SparkFailed:
    """Return the failure with the whole chain of causes as its message, without secrets."""
    # Spark wraps an exception in others that repeat its message. A cause without one, such as an OutOfMemoryError, has its name.
    messages: list[str] = []
    for cause in causes:
        if not messages or (cause.message or cause.short_name) not in messages[-1]:
            messages.append(str(cause))
    return SparkFailed(redacted("; caused by ".join(messages)), causes)


def _is_lost(error: BaseException) -> bool:
    """Whether the connection to the JVM is lost; for some failed calls Py4J reports only that they failed."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    unexplained = type(error) is Py4JError and "Trace:" not in str(error)
    return isinstance(error, ConnectionError | Py4JNetworkError) or (unexplained and has_ended())


def _safe_causes(error: BaseException) -> tuple[JavaCause, ...]:
    from py4j.protocol import Py4JError

    try:
        return java_causes(error)
    except (Py4JError, OSError):
        # The JVM died meanwhile and cannot be asked any more; the Python error is all that is left.
        return ()


def _connect_causes(error: BaseException) -> tuple[JavaCause, ...]:
    """The chain as the server wrote it: the outermost class, its trace, and "Caused by: class: message" for each other."""
    trace = getattr(error, "_stacktrace", None)
    if not trace:
        return ()
    outermost = JavaCause(trace.partition("\n")[0].strip(), getattr(error, "_message", None) or "")
    return (outermost, *further_causes(trace))[:MAX_DEPTH]


def further_causes(trace: str) -> tuple[JavaCause, ...]:
    """Return the inner causes that a Java stack trace names."""
    return tuple(JavaCause(match["class_name"], match["message"] or "") for match in CAUSED_BY.finditer(trace))
