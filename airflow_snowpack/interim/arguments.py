"""A task's arguments as values and references: what only Airflow or a name can find is replaced.

args = resolved([named_table("flights"), [ref, 7]], handover)      # [TableRef(…), [ref, 7]]
handover.receive(find_refs(args))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_snowpack.interim.refs import is_named, is_ref, read_named

if TYPE_CHECKING:
    from airflow_snowpack.interim.handover import Handover


def resolved(value: Any, handover: Handover) -> Any:
    """Replace the name of a table by its reference, and the results of a mapped task by a list, at any depth.

    A container in which nothing is replaced is returned as it is.

    :raises InterimTableNotFound: a name points to no table.
    """
    if is_named(value):
        return handover.receive_named(*read_named(value))
    if isinstance(value, Mapping) and not is_ref(value):
        found = {key: resolved(item, handover) for key, item in value.items()}
        return value if all(found[key] is item for key, item in value.items()) else found
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        items = [resolved(item, handover) for item in value]
        return value if all(new is item for new, item in zip(items, value, strict=True)) else type(value)(items)
    if type(value).__name__ == "LazyXComSequence":
        return resolved(value[:], handover)  # all of them in one request to Airflow
    return value
