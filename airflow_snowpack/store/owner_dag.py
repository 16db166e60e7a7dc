"""The DAG in ``dag/run/task`` as a database computes it: the same expression in an index and in the queries that use it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class owner_dag(FunctionElement[str]):  # noqa: N801  # named as the SQL function that it is used like
    """Everything up to the first slash, the slash included; empty when there is none."""

    type = sa.Text()
    inherit_cache = True


@compiles(owner_dag, "sqlite")
def _on_sqlite(element: owner_dag, compiler: Any, **options: Any) -> str:
    return _up_to_slash("instr", element, compiler, options)


@compiles(owner_dag, "postgresql")
def _on_postgres(element: owner_dag, compiler: Any, **options: Any) -> str:
    return _up_to_slash("strpos", element, compiler, options)


def _up_to_slash(position: str, element: owner_dag, compiler: Any, options: dict[str, Any]) -> str:
    # Literals and no parameters: a planner takes the index only for the very same expression.
    owner = compiler.process(element.clauses, **options)
    return f"substr({owner}, 1, {position}({owner}, '/'))"
