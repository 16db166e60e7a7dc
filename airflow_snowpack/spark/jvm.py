"""Start the JVM, log the lines that it writes, and keep the last ones.

    >>> log = JvmLog()
    >>> gateway = start_jvm(conf, java, log)

When Spark's launcher ends early, pyspark reports only ``[JAVA_GATEWAY_EXITED]``; the reason is in what the JVM wrote to its
standard error. So that goes through a pipe: each line is logged at the level that the line itself names, and the end is kept.
Airflow logs whatever a task writes to its standard error as errors, and most of these lines are none.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import signal
from collections import deque
from contextlib import contextmanager
from subprocess import TimeoutExpired
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_snowpack.spark.config import explain_download
from airflow_snowpack.spark.errors import SparkUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from subprocess import Popen

    from airflow_snowpack.spark.java import Java

log = logging.getLogger(__name__)

STDERR = 2
KEPT_LINES = 400
LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "NOTE": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "SEVERE": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES = "|".join(LEVELS)
# Behind a moment, as Spark's own patterns have it; at the start, as Java has it; or in a line of JSON.
NAMED_LEVEL = re.compile(
    rf"(?:\[?[\d/.:,+TZ -]{{8,40}}\]?\s+)?\[?(?P<plain>{_NAMES})\b" rf'|\{{.*"level"\s*:\s*"(?P<json>{_NAMES})"'
)
EXCEPTION = re.compile(r"[\w.$]+(?:Exception|Error)\b")
CONTINUATION = re.compile(r"\s|Caused by:|Suppressed:")
# What a JVM writes when it ends by itself.
FATAL = re.compile(r"OutOfMemoryError|fatal error|SIGSEGV|StackOverflowError|# There is insufficient memory")
SHORT_LOG = 8
# Until the JVM's last output after its end has arrived.
LAST_WORDS_SECONDS = 5.0


class _Started(NamedTuple):
    process: Popen[bytes]
    log: JvmLog


_last: _Started | None = None
"""The JVM that this process started last."""


class Levels:
    """The levels of the lines of one JVM, in their order: a stack trace has the level of the line that it follows.

    >>> levels = Levels()
    >>> levels.of("26/11/22 10:50:26 WARN NativeCodeLoader: Unable to load native-hadoop library")
    30
    """

    def __init__(self) -> None:
        self._last = logging.INFO

    def of(self, line: str) -> int:
        """Return the level of the next line; a line that names none is information."""
        named = NAMED_LEVEL.match(line)
        if named:
            self._last = LEVELS[named["plain"] or named["json"]]
        elif line.startswith("Exception in thread"):
            self._last = logging.ERROR
        elif EXCEPTION.match(line):
            self._last = self._last if self._last >= logging.WARNING else logging.ERROR
        elif not CONTINUATION.match(line):
            self._last = logging.INFO
        return self._last


class JvmLog:
    """The end of what the JVM wrote to its standard error."""

    def __init__(self) -> None:
        self._levels = Levels()
        # A thread that holds a handler's lock when the interpreter ends would bring it down, so logging stops before that.
        self._logging = Lock()
        self._ends = False
        atexit.register(self._stop_logging)
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._lock = Lock()
        self._pump: Thread | None = None

    def tail(self) -> tuple[str, ...]:
        """The last lines, the newest last."""
        with self._lock:
            return tuple(self._lines)

    def follow(self, source: int) -> None:
        """Pass on and keep what comes through this file descriptor, until it is closed."""
        self._pump = Thread(target=self._copy, args=(source,), name="snowpack-jvm-log", daemon=True)
        self._pump.start()

    def wait_for_end(self) -> None:
        """Wait until the JVM has closed its standard error, a few seconds at most."""
        if self._pump is not None:
            self._pump.join(LAST_WORDS_SECONDS)

    def _copy(self, source: int) -> None:
        rest = b""
        while chunk := os.read(source, 65536):
            *lines, rest = (rest + chunk).split(b"\n")
            self._take(lines)
        self._take([rest] if rest else [])
        os.close(source)

    def _take(self, lines: Sequence[bytes]) -> None:
        texts = [line.decode(errors="replace") for line in lines]
        with self._lock:
            self._lines.extend(texts)
        with self._logging:
            for text in texts:
                if self._ends or not log.hasHandlers():
                    os.write(STDERR, f"{text}\n".encode())  # as it would be without us
                else:
                    log.log(self._levels.of(text), "%s", text)

    def _stop_logging(self) -> None:
        # After a fork the lock may be one that no thread of this process holds.
        if self._logging.acquire(timeout=LAST_WORDS_SECONDS):
            self._ends = True
            self._logging.release()


def start_jvm(conf: Mapping[str, str], java: Java, log: JvmLog) -> Any:
    """Start Spark's JVM; the answer is pyspark's gateway to it.

    :raises SparkUnavailable: it ended before it was ready; the message has the reason and the fix.
    """
    from pyspark.conf import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    global _last
    launch = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        launch.set(key, value)
    ours, theirs = os.pipe()
    log.follow(ours)
    try:
        with _java_home(java):
            launch_untyped: Callable[..., Any] = launch_gateway
            gateway = launch_untyped(launch, {"stderr": theirs})
            _last = _Started(gateway.proc, log)
            return gateway
    except PySparkRuntimeError as error:
        os.close(theirs)
        theirs = -1
        log.wait_for_end()
        raise SparkUnavailable(_why(log.tail(), conf, java)) from error
    finally:
        # The JVM has its own copy.
        if theirs >= 0:
            os.close(theirs)


def has_ended() -> bool:
    """Whether the JVM that this process started last is gone, or goes within a few seconds."""
    if _last is None:
        return False
    try:
        _last.process.wait(LAST_WORDS_SECONDS)
    except TimeoutExpired:
        return False
    return True


def why_gone(error: BaseException) -> str:
    """Return why the JVM does not respond, as far as its end shows.

    :param error: how the connection to it failed.
    """
    lost = " ".join(f"{type(error).__name__}: {error}".split())
    if _last is None:
        return f"it does not answer ({lost})"
    if not has_ended():
        return f"process {_last.process.pid} runs and does not answer ({lost})"
    code = _last.process.returncode
    _last.log.wait_for_end()
    lines = [line.strip() for line in _last.log.tail() if FATAL.search(line)]
    how = f"process {_last.process.pid} ended with exit code {code}"
    if code < 0:
        out_of_memory = ", as when its machine or its container is out of memory" if code == -signal.SIGKILL else ""
        how = f"process {_last.process.pid} was killed by {signal.Signals(-code).name}{out_of_memory}"
    return f"{how}; its log: {'; '.join(lines[-2:])}" if lines else how


@contextmanager
def _java_home(java: Java) -> Iterator[None]:
    # pyspark copies the process's environment into the JVM's and takes no other.
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(java.home)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("JAVA_HOME", None)
        else:
            os.environ["JAVA_HOME"] = before


def _why(tail: tuple[str, ...], conf: Mapping[str, str], java: Java) -> str:
    packages = conf.get("spark.jars.packages", "")
    explained = explain_download(tail, packages) if packages else None
    if explained:
        return explained
    # A JVM that never ran logs the reason in a few lines; one that ran and failed in a stack trace among many.
    lines = [line for line in tail if "Exception" in line or "Error" in line] if len(tail) > SHORT_LOG else list(tail)
    reason = "; ".join(line.strip() for line in lines[:3]) or "empty"
    return (
        f"Spark's JVM ended before it was ready, with Java {java.version} of {java.origin} ({java.home}). Its log: {reason}. "
        "Correct that (memory, a setting, the Java installation); all that it wrote is in this process's log."
    )
