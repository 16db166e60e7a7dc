"""The ``CALL`` statements of Iceberg's procedures.

    >>> call = procedure_call(table, Action.REWRITE_DATA_FILES, {"where": "month = 3"}).of(job_id, attempt)
    >>> statements.rows(call.sql, call.args)

The invariant: the SQL text contains nothing that a caller gave. The table, predicates, columns, numbers and times are bound to
parameter markers. The text holds fixed words, the checked and quoted name of the catalog, and a comment with the statement's
origin, escaped so that nothing in it can end the comment or be substituted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from airflow_snowpack.iceberg.names import TableName


@dataclass(frozen=True, slots=True)
class ProcedureCall:
    """A statement and the arguments bound to its markers."""

    table: TableName
    action: str
    sql: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def of(self, job_id: str, attempt: int) -> ProcedureCall:
        """Return the call with a comment before its statement that names where it comes from, for people who look at Spark."""
        named = {"table": str(self.table), "action": self.action, "job_id": job_id, "attempt": attempt}
        origin = json.dumps({"app": "airflow_snowpack", **named})
        # A slash could end or nest the comment, and a dollar sign start a ${substitution}; JSON has escapes for both.
        harmless = origin.replace("/", "\\u002f").replace("$", "\\u0024")
        return replace(self, sql=f"/* {harmless} */ {self.sql}")


def procedure_call(
    table: TableName,
    action: str,
    arguments: Mapping[str, Any],
    settings: Mapping[str, str] | None = None,
) -> ProcedureCall:
    """Return the statement of an action's procedure.

    :param arguments: ``None`` leaves an argument at the procedure's default.
    :param settings: the entries of the procedure's ``options`` map.
    """
    args: dict[str, Any] = {}
    parts = []
    for name, value in {"table": table.quoted, **arguments}.items():
        if value is not None:
            parts.append(f"{name} => {_marked(name, value, args)}")
    if settings:
        markers = {f"setting_{number}": key for number, key in enumerate(settings)}
        args |= {marker: settings[key] for marker, key in markers.items()}
        entries = ", ".join(f"'{key}', :{marker}" for marker, key in markers.items())
        parts.append(f"options => map({entries})")
    return ProcedureCall(table, action, f"CALL `{table.catalog}`.system.{action}({', '.join(parts)})", args)


def _marked(name: str, value: Any, args: dict[str, Any]) -> str:
    """Add a value to the arguments and return its markers; lists and maps have one marker per element."""
    if isinstance(value, dict):
        elements = [each for pair in value.items() for each in pair]
    elif isinstance(value, tuple):
        elements = list(value)
    else:
        args[name] = value.value if isinstance(value, StrEnum) else value
        return f":{name}"
    markers = {f"{name}_{number}": each for number, each in enumerate(elements)}
    args |= markers
    # Spark would bind a small number as an integer, but ids are longs.
    cast = "CAST(:{} AS BIGINT)" if isinstance(elements[0], int) else ":{}"
    return f"{'map' if isinstance(value, dict) else 'array'}({', '.join(cast.format(marker) for marker in markers)})"
