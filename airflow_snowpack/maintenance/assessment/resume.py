"""The file that makes an assessment resumable: a line with the health of each table that was read.

    resume = ResumeFile.open(Path("report.html.resume"), catalog_id)
    resume.health_of("demo.flights", metadata_location, bounds, expired=12)      # None: read the table
    resume.keep("demo.flights", health, expired=12)

A line is valid only for the metadata location, the bounds and the number of expired snapshots that it was read with. Truncated
lines are ignored. Unreadable tables are not stored, so the next run tries them again.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.iceberg.health import HealthBounds, TableHealth
from airflow_snowpack.iceberg.health.encoding import FORMAT, decode, encode


class UnusableResumeFile(SnowpackError, kind=Kind.INVALID):
    """The resume file cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"The resume file {str(path)!r} cannot be used: {problem}. Name another file, or delete this one.")


class ResumeFile:
    """The results of earlier runs: by table, its health as text, and how many snapshots would have expired."""

    def __init__(self, path: Path, kept: dict[str, tuple[str, int]]) -> None:
        self.path = path
        self._kept = kept
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path, catalog_id: str) -> ResumeFile:
        """Read the file, or start one.

        :param catalog_id: the catalog's identity; the file of another catalog is refused.
        :raises UnusableResumeFile: it is not a resume file of this catalog, or cannot be read or written.
        """
        header = {"snowpack_assessment": FORMAT, "catalog_id": catalog_id}
        try:
            text = path.read_text() if path.exists() else ""
            lines = text.splitlines()
            if not lines:
                path.write_text(json.dumps(header) + "\n")
            elif json.loads(lines[0]) != header:
                raise UnusableResumeFile(path, "it is of another catalog or another release")
            elif not text.endswith("\n"):
                with path.open("a") as file:
                    file.write("\n")  # a truncated line must not spoil the next one
        except (OSError, ValueError) as error:
            raise UnusableResumeFile(path, str(error)) from error
        return cls(path, dict(_complete(lines[1:])))

    def health_of(self, table: str, metadata_location: str, bounds: HealthBounds, *, expired: int) -> TableHealth | None:
        """Return the current health of a table; ``None`` if it has to be read.

        :param expired: how many snapshots would expire now; 0 if the bytes that this frees do not matter.
        """
        text, expired_then = self._kept.get(table, ("", 0))
        if not text or expired not in (0, expired_then):
            return None
        health = decode(text)
        is_current = health.metadata_location == metadata_location and health.bounds == bounds
        return health if is_current else None

    def keep(self, table: str, health: TableHealth, *, expired: int) -> None:
        """Add the health of a table; ``expired`` is the number of snapshots that its ``expirable_bytes`` count."""
        line = json.dumps([table, encode(health), expired])
        with self._lock, self.path.open("a") as file:
            file.write(line + "\n")

    def delete(self) -> None:
        """Delete the file when the assessment is complete."""
        self.path.unlink(missing_ok=True)


def _complete(lines: list[str]) -> list[tuple[str, tuple[str, int]]]:
    found = []
    for line in lines:
        try:
            table, text, expired = json.loads(line)
        except ValueError:
            continue  # a truncated line
        found.append((table, (text, expired)))
    return found
