"""Find assessed tables whose location other tables share, where the removal of orphan files is refused."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.locations import LOCATION_PROPERTIES, normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_snowpack.iceberg.health import TableHealth


def shared_locations(found: Sequence[TableHealth]) -> dict[str, tuple[str, ...]]:
    """Return what is shared by table, as sentences without a full stop; tables that share nothing are left out."""
    owners: dict[str, set[str]] = defaultdict(set)
    for health in found:
        for place in _places(health):
            owners[place].add(health.table)
    conflicts: dict[str, dict[str, str]] = defaultdict(dict)
    for health in found:
        for place in _places(health):
            for around in _around(place):
                for other in owners.get(around, set()) - {health.table}:
                    same = around == place
                    conflicts[health.table][other] = "has the same location" if same else "lies around it"
                    conflicts[other].setdefault(health.table, "has the same location" if same else "lies inside it")
    return {table: tuple(_sentences(others)) for table, others in conflicts.items()}


def _places(health: TableHealth) -> Iterable[str]:
    elsewhere = (health.properties.get(key) for key in LOCATION_PROPERTIES)
    return {normalise(place) for place in (health.location, *elsewhere) if place}


def _around(place: str) -> Iterator[str]:
    """Yield a location and its parent folders."""
    scheme, separator, rest = place.rpartition("://")
    parts = rest.split("/")
    for length in range(len(parts), 0, -1):
        yield scheme + separator + "/".join(parts[:length])


def _sentences(others: dict[str, str]) -> Iterator[str]:
    for relation in sorted(set(others.values())):
        names = sorted(name for name, found in others.items() if found == relation)
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield f"remove_orphan_files is refused: {shown} {relation}"
