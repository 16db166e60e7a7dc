"""What the JVM writes to its standard error is logged at the level that each line names."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from airflow_snowpack.spark.jvm import JvmLog, Levels

INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR

START = [
    ("NOTE: Picked up JDK_JAVA_OPTIONS: -XX:+UseSerialGC", INFO),
    ("WARNING: Using incubator modules: jdk.incubator.vector", WARNING),
    (":: loading settings :: url = jar:file:/ivysettings.xml", INFO),
    ("\tconfs: [default]", INFO),
    ("\t|       conf       | number| search|dwnlded|evicted|| number|dwnlded|", INFO),
    ("26/11/22 10:50:26 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform", WARNING),
    ('Setting default log level to "WARN".', INFO),
    ("26/11/22 10:51:02 WARN TaskSetManager: Lost task 0.0", WARNING),
    ("java.io.IOException: No space left on device", WARNING),
    ("\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)", WARNING),
    ("Caused by: java.lang.IllegalStateException: closed", WARNING),
    ("2026-11-22T10:51:03.123Z INFO  BlockManager: Removed", INFO),
    ("26/11/22 10:51:04 ERROR Executor: Exception in task 0.0", ERROR),
    ("org.apache.spark.SparkException: Task failed", ERROR),
    ('{"ts":"2026-11-22T10:51:05Z","level":"WARN","msg":"slow","logger":"x"}', WARNING),
    ("a line that names no level, with the word ERROR in it", INFO),
    ('Exception in thread "main" java.lang.OutOfMemoryError: Java heap space', ERROR),
]


def test_each_line_has_the_level_that_it_names_and_a_stack_trace_that_of_its_line() -> None:
    levels = Levels()
    assert [(line, levels.of(line)) for line, _level in START] == START


def written(lines: list[str]) -> JvmLog:
    jvm_log = JvmLog()
    source, target = os.pipe()
    jvm_log.follow(source)
    os.write(target, "\n".join(lines).encode())
    os.close(target)
    jvm_log.wait_for_end()
    return jvm_log


def test_every_line_is_logged_once_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    lines = [line for line, _level in START]
    with caplog.at_level(logging.DEBUG):
        assert written(lines).tail() == tuple(lines)

    assert [(record.getMessage(), record.levelno) for record in caplog.records] == START


@pytest.mark.parametrize("configured", ["", "logging.basicConfig(level='INFO', format='%(levelname)s|%(message)s');"])
def test_a_process_without_logging_writes_the_lines_to_its_standard_error_and_every_process_ends_well(configured: str) -> None:
    code = f"""
import logging, os, threading
{configured}
from airflow_snowpack.spark.jvm import JvmLog
source, target = os.pipe()
log = JvmLog()
log.follow(source)
def write():
    while True:
        os.write(target, b"26/11/22 10:50:26 WARN X: y\\n")
threading.Thread(target=write, daemon=True).start()
while len(log.tail()) < 100:
    pass
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    first = done.stderr.splitlines()[0]
    assert first == ("WARNING|" if configured else "") + "26/11/22 10:50:26 WARN X: y"
