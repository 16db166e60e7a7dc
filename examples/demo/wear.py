"""What degrades a table besides small files: deletes, orphan files, and age.

    wear = Wear(session, table, name, set_modified)
    wear.delete_cancelled(first_of_month)
    wear.leave_orphans(20)
    wear.age(timedelta(days=10))

All of it is what real use does: the deletes are Spark's own merge-on-read deletes, and an orphan is what a writer leaves that
died before its commit. Only the files' modification times are set back, because a demo cannot wait days.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING

from examples.demo.table_files import TableFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import date, timedelta

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from airflow_snowpack.iceberg import TableName


def set_modified(paths: Iterable[str], moment: float) -> None:
    """Set the modification time of files of this machine.

    :param moment: seconds since 1970.
    """
    for path in paths:
        os.utime(path, (moment, moment))


class Wear:
    """Wears one table.

    :param set_modified: sets the modification time of files of the table's storage.
    """

    def __init__(
        self, session: SparkSession, table: Table, name: TableName, set_modified: Callable[[Iterable[str], float], None]
    ) -> None:
        self._session = session
        self._files = TableFiles(table)
        self._name = name
        self._set_modified = set_modified

    def delete_cancelled(self, month: date) -> None:
        """Delete the flights of a month that never left: one commit with a position-delete file for each file it hits."""
        first = month.isoformat()
        self._session.sql(
            f"DELETE FROM {self._name.quoted} WHERE dep_time IS NULL "
            f"AND flight_date >= DATE '{first}' AND flight_date < add_months(DATE '{first}', 1)"
        )

    def leave_orphans(self, count: int) -> int:
        """Leave complete data files that no commit names; gives how many."""
        written = sorted(file.path for file in self._files.list("data") if file.extension == "parquet")[:count]
        for path in written:
            self._files.copy(path, f"{path.rpartition('/')[0]}/00000-0-{uuid.uuid4()}-never-committed.parquet")
        return len(written)

    def age(self, by: timedelta) -> None:
        """Set the modification time of every file of the table back."""
        self._set_modified([file.path for file in self._files.list()], time.time() - by.total_seconds())
