"""Change the metadata file of a table in its place, as a faulty tool would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.table import Table


@contextmanager
def edited_metadata(table: Table) -> Iterator[dict[str, Any]]:
    """Yield the metadata as JSON, and write what becomes of it."""
    file = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(file.read_text())
    yield metadata
    file.write_text(json.dumps(metadata))
