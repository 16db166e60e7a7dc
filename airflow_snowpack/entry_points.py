"""The entry points by which other distributions extend the package.

entry_points("airflow_snowpack.actions")        # {"vacuum": EntryPoint(name='vacuum', value='acme:Vacuum', …)}
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions
from typing import TypeVar

T = TypeVar("T")


def entry_points(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; of several, the first on the path."""
    return _on_path(group, tuple(sys.path))


def load_class(point: EntryPoint, base: type[T], named_by: str) -> type[T]:
    """Return the class of an entry point.

    :param base: the class that it extends.
    :param named_by: the attribute of the class that has the name of its entry point.
    :raises ValueError: it cannot be loaded, or is another class.
    """
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        reason = (str(error) if isinstance(error, Exception) else "") or repr(error)
        raise ValueError(f"{point.value} cannot be loaded: {reason}") from error
    if not (isinstance(found, type) and issubclass(found, base) and getattr(found, named_by, None) == point.name):
        raise ValueError(f"{point.value} is not a subclass of {base.__name__} whose {named_by} is {point.name!r}")
    return found


@lru_cache
def _on_path(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    points = [point for found in distributions(path=list(path)) for point in found.entry_points if point.group == group]
    return {point.name: point for point in reversed(points)}
