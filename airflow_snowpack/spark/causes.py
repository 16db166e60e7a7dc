"""What really went wrong in the JVM: the chain of Java exceptions behind a Python one.

    >>> try:
    ...     session.sql("CALL …")
    ... except Exception as error:
    ...     raise translate(error) from error

Py4J reports the outermost exception only, and pyspark turns some into its own classes. The reason, such as the
``ValidationException`` that makes a lost rewrite a conflict, is at the end of the chain of ``getCause()``.
"""

from __future__ import annotations

import re

from airflow_snowpack.spark.errors import JavaCause, SparkDied, SparkFailed
from airflow_snowpack.spark.jvm import has_ended, why_gone

# A chain of causes may in theory be a circle.
MAX_DEPTH = 20
CAUSED_BY = re.compile(r"^Caused by: (?P<class_name>[\w.$]+)(?:: (?P<message>.*))?$", re.MULTILINE)


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
    """The same failure with the whole chain of causes as its message; a lost connection to the JVM includes why the JVM ended."""
    if _is_lost(error):
        return SparkDied(why_gone(error))
    causes = _safe_causes(error)
    if not causes:
        return SparkFailed(f"{type(error).__name__}: {error}")
    # Spark wraps an exception in others that repeat its message.
    messages: list[str] = []
    for cause in causes:
        if not messages or cause.message not in messages[-1]:
            messages.append(str(cause))
    return SparkFailed("; caused by ".join(messages), causes)


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
    inner = (JavaCause(match["class_name"], match["message"] or "") for match in CAUSED_BY.finditer(trace))
    return (outermost, *inner)[:MAX_DEPTH]
