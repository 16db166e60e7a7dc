"""The entry points by which other distributions extend the package.

entry_points("airflow_snowpack.actions")        # {"vacuum": EntryPoint(name='vacuum', value='acme:Vacuum', …)}
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions


def entry_points(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; of several, the first on the path."""
    return _on_path(group, tuple(sys.path))


@lru_cache
def _on_path(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    points = [point for found in distributions(path=list(path)) for point in found.entry_points if point.group == group]
    return {point.name: point for point in reversed(points)}
