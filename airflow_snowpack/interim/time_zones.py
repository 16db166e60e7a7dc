"""The time zones of moments, which Iceberg does not keep: it has instants, in UTC.

    zones = time_zones(rows.schema)                   # {"3.0": "Europe/Berlin"}: of the first field of the fourth column
    properties = {TIME_ZONES: json.dumps(zones)}
    field = in_time_zones(field, zones, "3")

The invariant: an instant is the same in every zone. What the zone decides is its day and its hour, so what reads a table without
Spark gets moments in the zones that they were written in. Spark shows instants in the zone of its session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TIME_ZONES = "snowpack.time-zones"
"""The property of a table that has them, as JSON."""


def time_zones(schema: pa.Schema) -> dict[str, str]:
    """Return the time zones of the moments that are in another zone than UTC, by the place of each: ``{"3.0": "Europe/Berlin"}``.

    A place is that of the column, then those of the fields inside of it.
    """
    return dict(_zones(schema, ()))


def _zones(fields: Iterable[pa.Field], above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for place, field in enumerate(fields):
        path = (*above, str(place))
        kind = _decoded(field.type)
        if types.is_timestamp(kind) and kind.tz is not None and kind.tz != "UTC":
            yield ".".join(path), kind.tz
        yield from _zones(_children(kind), path)


def in_time_zones(field: pa.Field, zones: Mapping[str, str], place: str) -> pa.Field:
    """Return the field with the zones that :func:`time_zones` found.

    :param place: that of the field.
    """
    kind = field.type
    if types.is_timestamp(kind) and place in zones:
        return field.with_type(pa.timestamp(kind.unit, zones[place]))
    inner = [in_time_zones(each, zones, f"{place}.{inside}") for inside, each in enumerate(_children(kind))]
    if types.is_struct(kind):
        return field.with_type(pa.struct(inner))
    if types.is_map(kind):
        return field.with_type(pa.map_(*inner))
    if types.is_large_list(kind):
        return field.with_type(pa.large_list(*inner))
    return field.with_type(pa.list_(*inner)) if types.is_list(kind) else field


def _decoded(kind: Any) -> pa.DataType:
    return _decoded(kind.value_type) if types.is_dictionary(kind) or types.is_run_end_encoded(kind) else kind


def _children(kind: Any) -> list[pa.Field]:
    if types.is_struct(kind):
        return list(kind)
    if types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if types.is_nested(kind) and hasattr(kind, "value_field"):
        return [kind.value_field]
    return []
