"""Write the archive of Java classes that the JVMs of the tests map: ``python class_archive.py .state/spark-classes.jsa``.

A JVM of a test lives for seconds and spends half of its CPU on reading and verifying the same 15,000 classes of Spark. With the
archive of Java's class data sharing a short session on an Iceberg table takes 5.7 s of CPU instead of 10.5 s. A JVM with another
Java, or other jars than when the archive was written, ignores it, and so does one that starts before it is written. ``make test``
writes it beside the first tests; it takes 28 s of CPU.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from py4j.protocol import Py4JError

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.spark import SparkConfig, local_session

TABLE = "lake.db.flights"
STATEMENTS = (
    "CREATE NAMESPACE lake.db",
    f"CREATE TABLE {TABLE} (id BIGINT, name STRING) USING iceberg TBLPROPERTIES ('write.delete.mode'='merge-on-read')",
    f"INSERT INTO {TABLE} VALUES (1, 'a'), (2, 'b'), (2, 'c')",
    f"INSERT INTO {TABLE} VALUES (1, 'd'), (2, 'e')",
    f"DELETE FROM {TABLE} WHERE name = 'c'",
    f"SELECT id, count(DISTINCT name) FROM {TABLE} GROUP BY id ORDER BY id",
    "CALL lake.system.rewrite_data_files(table => 'lake.db.flights', options => map('min-input-files', '2'))",
    "CALL lake.system.expire_snapshots(table => 'lake.db.flights', retain_last => 1)",
    "CALL lake.system.remove_orphan_files(table => 'lake.db.flights', dry_run => true)",
)


def main(archive: Path) -> None:
    """Run what tests run, and have the JVM write the classes that it loaded when it ends."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    half = archive.with_suffix(".half")
    os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # as tests/conftest.py
    os.environ["SPARK_SUBMIT_OPTS"] = f'-XX:ArchiveClassesAtExit="{half}" -Xlog:cds=off -Xlog:cds+dynamic=off'
    with TemporaryDirectory(prefix="snowpack-classes-") as home:
        lake = CatalogConfig.embedded(Path(home))
        session = local_session(SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages(), app_name="classes"))
        for statement in STATEMENTS:
            session.sql(statement).collect()
        with suppress(Py4JError, ConnectionError):  # the connection ends with the JVM
            session.sparkContext._jvm.java.lang.System.exit(0)
        session.sparkContext._gateway.proc.wait()
    half.replace(archive)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
