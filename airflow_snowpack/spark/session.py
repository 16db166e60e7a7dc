"""A Spark session with Iceberg in it, started once and reused.

    >>> session = local_session(SparkConfig(catalogs=catalog.spark_conf(), packages=catalog.spark_packages()))
    >>> session.sql("SELECT * FROM lake.flights.departures.snapshots")

The invariant: a process has one JVM, and a caller gets a session that has exactly its catalogs, and that does not substitute
variables in SQL: ``${env:X}`` would read the environment of the process, and a session that a user's code has started does that
by default. Two callers with the same configuration share a session; with other catalogs they get sessions of their own in the
same JVM; with other settings that a running JVM cannot change, the second one is refused.

In an application of ``spark-submit`` the JVM is there before Python. Its command line decides on master, memory and jars, and its
settings override those of the configuration, which adds what is missing.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any
from zipimport import zipimporter

from airflow_snowpack.redaction import HIDDEN, SECRET_NAME
from airflow_snowpack.spark.config import (
    CATALOG_PREFIX,
    ICEBERG_EXTENSIONS,
    REDACTED,
    REDACTION,
    SUBSTITUTION,
    check_jars,
)
from airflow_snowpack.spark.errors import SparkUnavailable
from airflow_snowpack.spark.java import find_java
from airflow_snowpack.spark.jvm import JvmLog, start_jvm
from airflow_snowpack.spark.runtimes import check_pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from airflow_snowpack.spark.config import SparkConfig

log = logging.getLogger(__name__)

CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""pyspark's variable, with which its functions make columns for Spark Connect, and no session starts in this process."""
# What may differ between two callers of one JVM without a consequence for either.
COSMETIC = frozenset({"spark.app.name"})
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable by which ``spark-submit`` passes its JVM to the application."""
OF_COMMAND_LINE = frozenset(
    {"spark.master", "spark.app.name", "spark.driver.memory", "spark.jars", "spark.jars.packages", "spark.jars.repositories"}
)
"""What only the command line of ``spark-submit`` can set."""


@dataclass(slots=True)
class _Running:
    """The JVM of this process and the sessions in it, by their catalogs."""

    pid: int
    launch_conf: dict[str, str]
    context: SparkContext
    sessions: list[tuple[dict[str, str], SparkSession]]


_running: _Running | None = None
_lock = Lock()


def local_session(config: SparkConfig) -> SparkSession:
    """The session for this configuration, started when there is none.

    :raises SparkUnavailable: pyspark, Java or a jar is missing or does not fit, the JVM did not start, or one runs in this
        process with settings that differ from these.
    """
    global _running
    with _lock:
        _forget_dead()
        if _running is None:
            start = _start_submitted if SUBMITTED in os.environ else _start
            _running = _adopt(config) or start(config)
        else:
            _check_same(config.launch_conf(), _running.launch_conf)
        session = _session_of(_running, config.session_conf())
    return without_substitution(session)  # each time: it may be the session of the caller's own code, which can change it


def without_substitution(session: SparkSession) -> SparkSession:
    """Return the session after its substitution of variables was turned off, before it runs text that others wrote."""
    session.conf.set(SUBSTITUTION, "false")
    return session


def check_local(config: SparkConfig) -> None:
    """Check the version of pyspark, the jars that were named, and Java, without starting a session.

    In an application of ``spark-submit`` the session starts, because YARN ends an application that has none after 100 s.

    :raises SparkUnavailable: something is missing or does not fit.
    """
    if SUBMITTED in os.environ:
        local_session(config)
        return
    check_pyspark()
    check_jars(config.jars)
    find_java(java_home=config.java_home)


def _start(config: SparkConfig) -> _Running:
    version = check_pyspark()
    check_jars(config.jars)
    java = find_java(java_home=config.java_home)
    from pyspark import SparkContext
    from pyspark.conf import SparkConf

    launch_conf = config.launch_conf()
    log.info("Starting Spark %s on %s with Java %s (%s)", version, config.master, java.version, java.origin)
    # The command line is for everybody on the machine to read; a secret reaches the JVM after its start, with the context.
    shown = {key: value for key, value in launch_conf.items() if not SECRET_NAME.search(key)}
    os.environ.pop(CONNECT_MODE, None)
    gateway = start_jvm(shown, java, JvmLog())
    conf = SparkConf(loadDefaults=False)
    for key, value in launch_conf.items():
        conf.set(key, value)
    with _interrupt_kept():
        context = SparkContext(conf=conf, gateway=gateway)
    if config.is_local and "PYSPARK_PYTHON" not in os.environ:
        # What tasks run in Python needs what is installed here; Spark would take the first python3 on the PATH.
        context.pythonExec = sys.executable
    # It writes each failure with its whole Java stack as one line of JSON; the same failure is raised in words.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return _Running(os.getpid(), launch_conf, context, [])


def _start_submitted(config: SparkConfig) -> _Running:
    """Start the session of an application of ``spark-submit``, in its JVM and with its settings."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark import SparkConf, SparkContext

    version = check_pyspark()
    try:
        SparkContext._ensure_initialized()
        jvm: Any = SparkContext._jvm
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(ICEBERG_EXTENSIONS)
    except Py4JJavaError:
        packages = ",".join(config.coordinates())
        raise SparkUnavailable(f"spark-submit has no Iceberg. Add --packages {packages}, or these jars with --jars.") from None
    except (Py4JError, OSError) as gone:
        raise SparkUnavailable(f"The JVM of spark-submit does not answer ({gone}). Submit the application again.") from gone
    conf = SparkConf()
    for key, value in replace(config, master=conf.get("spark.master") or config.master).launch_conf().items():
        if key not in OF_COMMAND_LINE:
            conf.setIfMissing(key, value)
    log.info("Starting Spark %s on %s in the JVM of spark-submit", version, conf.get("spark.master"))
    with _interrupt_kept():
        SparkContext(conf=conf)
    running = _adopt(config)
    assert running is not None, "its context has started"
    return running


@contextmanager
def _interrupt_kept() -> Iterator[None]:
    """Keep the handler of SIGINT, which a new context replaces in the main thread, also that of a worker."""
    interrupt = signal.getsignal(signal.SIGINT)
    yield
    if interrupt not in (signal.getsignal(signal.SIGINT), signal.default_int_handler, None):
        signal.signal(signal.SIGINT, interrupt)


def _adopt(config: SparkConfig) -> _Running | None:
    """The session that the caller's own code has started in this process, if it can do our work."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return None
    extensions = context.getConf().get("spark.sql.extensions", "") or ""
    if ICEBERG_EXTENSIONS not in extensions:
        raise SparkUnavailable(
            f"A Spark session without Iceberg runs in this process already ({context.appName!r}). Stop it first, or start it "
            f"with spark.sql.extensions={ICEBERG_EXTENSIONS} and Iceberg's jar."
        )
    return _Running(os.getpid(), config.launch_conf(), context, [])


def _session_of(running: _Running, wanted: dict[str, str]) -> SparkSession:
    for conf, session in running.sessions:
        if conf == wanted:
            return session
    from pyspark.sql import SparkSession

    # The first caller gets the process's own session, the one that SparkSession.builder finds. A session keeps a catalog that it
    # has used, whatever is set afterwards.
    session = running.sessions[0][1] if running.sessions else SparkSession(running.context)
    if running.sessions or any(session.conf.get(key, value) != value for key, value in wanted.items()):
        session = session.newSession()
        # It begins with the context's settings: the names of secrets, and what the caller's own code started it with.
        ours = tuple(f"{key}." for key in wanted if "." not in key.removeprefix(CATALOG_PREFIX))
        for key, value in session.conf.getAll.items():
            if key not in wanted and (value == HIDDEN or key.startswith(ours)):
                session.conf.unset(key)
    _have_redacted(running.context, wanted)
    for key, value in wanted.items():
        session.conf.set(key, value)
    running.sessions.append((wanted, session))
    return session


def _have_redacted(context: SparkContext, settings: Mapping[str, str]) -> None:
    """Have Spark redact secrets of a session in its event log, where it redacts only settings that the context has, too."""
    java_context: Any = context._jsc
    conf = java_context.sc().conf()
    conf.setIfMissing(REDACTION, REDACTED)
    for key in filter(SECRET_NAME.search, settings):
        conf.setIfMissing(key, HIDDEN)  # one that the caller started it with is for the caller's own new sessions


def _check_same(wanted: Mapping[str, str], running: Mapping[str, str]) -> None:
    keys = sorted((wanted.keys() | running.keys()) - COSMETIC)
    differing = [key for key in keys if wanted.get(key) != running.get(key) and not key.startswith(CATALOG_PREFIX)]
    if not differing:
        return
    differences = ", ".join(_difference(key, wanted.get(key), running.get(key)) for key in differing)
    raise SparkUnavailable(
        f"Spark already runs in this process with other settings: {differences}. A running JVM cannot change them. "
        "Use the same settings, stop that session first, or use a separate process."
    )


def _difference(key: str, wanted: str | None, running: str | None) -> str:
    return f"{key} (a secret, not shown)" if SECRET_NAME.search(key) else f"{key}={running!r} (requested: {wanted!r})"


def _forget_dead() -> None:
    """Drop a JVM that was stopped or has died, so that the next session can start."""
    global _running
    if _running is None:
        return
    if _running.pid != os.getpid():
        raise SparkUnavailable(
            "This process was forked from one that had started Spark, and a JVM cannot be shared by both. Start Spark after the "
            "fork, or use a new process instead of a fork."
        )
    if not _alive(_running.context):
        _running = None


def _alive(context: SparkContext) -> bool:
    from py4j.protocol import Py4JError

    java_context: Any = context._jsc
    if java_context is None:
        return False
    try:
        return not java_context.sc().isStopped()
    except (Py4JError, OSError):
        _reset_pyspark()
        return False


def _reset_pyspark() -> None:
    """Make pyspark forget a JVM that is gone: it keeps the gateway in class attributes and would use it for ever."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    log.warning("The Spark JVM of this process is gone; the next session starts a new one")
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def spare_archives() -> None:
    """Have this Python worker of Spark remember what is in its archives, which makes each further task 0.3 s shorter.

    Before each task Spark has a worker forget which files there are to import, and Python then reads the directory of pyspark's
    own zip archive again, once for each of its packages. Archives do not change while a worker lives.
    """
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter):
            finder.invalidate_caches = lambda: None  # type: ignore[method-assign]  # of this one object
