"""The functions, types and operators that a ``where`` predicate may use.

    >>> "date_trunc" in ALLOWED, "reflect" in ALLOWED
    (True, False)

Spark documents each function as deterministic, or it returns the current time; its result is not longer than its arguments
together; and it takes no code, regular expression or address. This excludes ``reflect``, ``repeat``, ``lpad``, ``replace``,
``rand``, ``regexp_like`` and user functions. A test compares the list with docs/actions.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.condition_values import Kind

OF_ICEBERG = frozenset({"bucket", "truncate", "years", "months", "days", "hours"})
"""Functions of an Iceberg catalog, such as ``lake.system.days(at)``, by which Iceberg selects partitions."""
FUNCTIONS = """
abs ceil ceiling floor greatest isnan least mod negative pmod round sign

btrim char_length character_length concat contains endswith instr lcase left length locate lower ltrim position right rtrim
startswith substr substring trim ucase upper

add_months current_date current_timestamp date_add date_diff date_format date_part date_sub date_trunc dateadd datediff datepart
day dayofmonth dayofweek dayofyear extract hour last_day make_date minute month months_between next_day now quarter second
timestamp_micros timestamp_millis timestamp_seconds timestampadd timestampdiff to_date to_timestamp trunc unix_date unix_micros
unix_millis unix_seconds weekday weekofyear year

coalesce if ifnull isnotnull isnull nullif nvl nvl2
"""
TYPES: dict[str, Kind] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("timestamp", "timestamp_ntz", "timestamp_ltz"), "timestamp"),
    "date": "date",
    "boolean": "truth",
    "string": "unknown",
    "binary": "other",
}
"""The types of a cast, each with the kind of its result. The result of a cast to text can be compared with anything."""
CASTS = frozenset({"cast", "try_cast", *(TYPES.keys() - {"timestamp_ntz", "timestamp_ltz"})})
ALLOWED = CASTS.union(FUNCTIONS.split())

BARE_FUNCTIONS = frozenset({"CURRENT_DATE", "CURRENT_TIMESTAMP"})
"""Functions called without parentheses."""
WITH_UNIT = frozenset({"TIMESTAMPADD", "TIMESTAMPDIFF", "DATEADD", "DATEDIFF", "DATE_ADD", "DATE_DIFF"})
PARTS = ("FROM", "FOR")
BETWEEN_ARGUMENTS = {"EXTRACT": (), "TRIM": ("FROM",), "SUBSTRING": PARTS, "SUBSTR": PARTS, "POSITION": ("IN",)}
"""The words that separate a function's arguments."""
OWN_SYNTAX = WITH_UNIT | BETWEEN_ARGUMENTS.keys()
ONE_UNIT = frozenset(
    {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFYEAR", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"}
)
UNITS = ONE_UNIT.union(f"{unit}S" for unit in ONE_UNIT)
SIDES = frozenset({"BOTH", "LEADING", "TRAILING"})
REFUSED_OPERATORS = frozenset({"RLIKE", "REGEXP"})
