"""Runs entries in real processes, for tests.

ran = run_entry(tmp_path, ShellEntry(("echo", "hello")))
ran.result().value, ran.texts(), ran.output("scored")
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_snowpack.runners import (
    Entry,
    EntryResult,
    Exchange,
    Exchanges,
    Invocation,
    ModuleEntry,
    OutputLine,
    SubprocessRunner,
)

if TYPE_CHECKING:
    import pyarrow as pa

SITE_PACKAGES = next(path for path in sys.path if path.endswith("site-packages"))


@dataclass
class Ran:
    """An entry that has ended."""

    exchange: Exchange
    code: int
    lines: list[OutputLine] = field(default_factory=list)

    def result(self) -> EntryResult:
        return self.exchange.result(self.code)

    def value(self) -> Any:
        return self.result().value

    def output(self, name: str) -> pa.Table:
        return self.exchange.output(name).read_all()

    def texts(self, level: int | None = None) -> list[str]:
        return [line.text for line in self.lines if level is None or line.level == level]


def run_entry(
    root: Path,
    entry: Entry,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    command_env: Mapping[str, str] | None = None,
    change: Callable[[Invocation], Invocation] = lambda invocation: invocation,
) -> Ran:
    """Run an entry in a subprocess; its exchange folder stays for the test to look at."""
    exchange = Exchanges(root / "exchange").begin("dag/run/task/-1", "attempt")
    lines: list[OutputLine] = []
    try:
        for name, rows in (inputs or {}).items():
            exchange.write_input(name, rows)
        exchange.write_call(entry, args, kwargs, command_env=command_env)
        invocation = change(exchange.invocation(isolated=False, inside=None))
        code = SubprocessRunner(grace=5).run(invocation, lines.append)
    finally:
        exchange.leave()  # otherwise the thread that touches the folder would live as long as the process
    return Ran(exchange, code, lines)


def call(root: Path, source: str, *args: Any, inputs: Mapping[str, Any] | None = None, **kwargs: Any) -> Ran:
    """Run the function ``f`` of this source."""
    return run_entry(root, ModuleEntry("f", source=source), args, kwargs, inputs=inputs)


def without_this_package(invocation: Invocation) -> Invocation:
    """Return the invocation in an environment like that of an image: with libraries, and without airflow_snowpack."""
    argv = (invocation.argv[0], "-S", *invocation.argv[1:])
    return replace(invocation, argv=argv, environment={**invocation.environment, "PYTHONPATH": SITE_PACKAGES})
