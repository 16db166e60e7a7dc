"""What degrades a table besides small files: deletes, orphan files, and age.

    wear = Wear(session, table, name)
    wear.delete_cancelled(first_of_month)
    wear.leave_orphans(20)
    wear.age(timedelta(days=10))

All of it is what real use does: the deletes are Spark's own merge-on-read deletes, and an orphan is what a writer leaves that
died before its commit. Only the files' modification times are set back, because a demo cannot wait days.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from datetime import date, timedelta

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from airflow_snowpack.iceberg import TableName


def folder_of(table: Table) -> Path:
    """Where a table of the embedded catalog lies on this machine."""
    return Path(urlsplit(table.location()).path)


class Wear:
    """Wears one table of the embedded catalog."""

    def __init__(self, session: SparkSession, table: Table, name: TableName) -> None:
        self._session = session
        self._folder = folder_of(table)
        self._name = name

    def delete_cancelled(self, month: date) -> None:
        """Delete the flights of a month that never left: one commit with a position-delete file for each file it hits."""
        first = month.isoformat()
        self._session.sql(
            f"DELETE FROM {self._name.quoted} WHERE dep_time IS NULL "
            f"AND flight_date >= DATE '{first}' AND flight_date < add_months(DATE '{first}', 1)"
        )

    def leave_orphans(self, count: int) -> int:
        """Leave complete data files that no commit names; gives how many."""
        written = sorted((self._folder / "data").rglob("*.parquet"))[:count]
        for file in written:
            shutil.copyfile(file, file.with_name(f"00000-0-{uuid.uuid4()}-never-committed.parquet"))
        return len(written)

    def age(self, by: timedelta) -> None:
        """Set the modification time of every file of the table back."""
        then = time.time() - by.total_seconds()
        for file in self._folder.rglob("*"):
            if file.is_file():
                os.utime(file, (then, then))
