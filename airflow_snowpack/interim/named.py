"""A named table as an argument: which table it is, is found out when the task runs.

report(features=named_table("features", scope="global"))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_snowpack.interim.errors import InvalidInterimRef
from airflow_snowpack.interim.refs import MARK
from airflow_snowpack.interim.scope import Scope

NAMED = "named"


def named_table(name: str, scope: Scope | str = Scope.RUN) -> dict[str, Any]:
    """The argument of a task that wants the table which this name points to by then.

    A name is no dependency: a task that needs what another one of the same run names comes after it, ``clean >> report``.

    :param scope: ``run``: a name of the same DAG run; ``global``: one that is known everywhere.
    :raises ValueError: there is no such scope.
    """
    return {MARK: NAMED, "name": name, "scope": Scope(scope).value}


def is_named(value: object) -> bool:
    """Whether this is what :func:`named_table` gives."""
    return isinstance(value, Mapping) and value.get(MARK) == NAMED


def read_named(value: Mapping[str, Any]) -> tuple[str, Scope]:
    """The name and its scope.

    :raises InvalidInterimRef: it is damaged.
    """
    try:
        return str(value["name"]), Scope(value["scope"])
    except (KeyError, ValueError) as problem:
        raise InvalidInterimRef(value, f"a named table has a name and a scope, {' or '.join(Scope)}") from problem
