"""Compile each statement once for a process: to compile it for the engine of each test took a third of the CPU of these tests.

    share_compiled_statements()

SQLAlchemy keeps what it has compiled for a dialect, and each engine has a dialect of its own. All that are of one kind, and talk
to one version of a database, compile alike.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

MOST = 2_000


class SharedStatements(dict[tuple[Any, ...], Any]):
    """Compiled statements by the kind of their dialect, in SQLAlchemy's own form of a cache."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(_by_kind(key), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        if len(self) >= MOST:
            self.clear()
        super().__setitem__(_by_kind(key), compiled)


def _by_kind(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *statement = key
    return type(dialect), dialect.server_version_info, *statement


def share_compiled_statements() -> None:
    """From now on, every connection of this process uses the same compiled statements."""
    statements = SharedStatements()

    def use(connection: sa.Connection) -> None:
        connection.execution_options(compiled_cache=statements)

    sa.event.listen(sa.Engine, "engine_connect", use)
