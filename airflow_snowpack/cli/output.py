"""Prints what a command found: a table for people, or JSON, YAML and plain text for programs.

    print_list(args.output, page.jobs, bodies.job_body, job_columns(now), empty="No job fits.")
    print_one(args.output, bodies.drain_body(state), {"drain mode": "on"})

Airflow's own ``AirflowConsole.print_as`` turns every number and ``null`` into text, and takes what stands in brackets for markup;
so JSON and YAML are written here from the values themselves, and tables are Airflow's with plain text in their cells.

The invariant: stdout has the output and nothing else. What is said besides goes to stderr (:func:`say`).
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow.cli.simple_table import AirflowConsole, SimpleTable
from rich.text import Text
from tabulate import tabulate  # type: ignore[import-untyped]  # it ships no types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")

STATUS_STYLES = {"pending": "yellow", "running": "cyan", "completed": "green", "failed": "bold red", "cancelled": "magenta"}
CONTROL_CHARACTERS = (*range(32), 127, *range(128, 160))
UNPRINTABLE = {code: "\N{REPLACEMENT CHARACTER}" for code in CONTROL_CHARACTERS if chr(code) not in "\n\t"}


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column of a list.

    :param whole: the value for programs that read plain text: whole ids, exact moments.
    :param short: the same for people, where it differs.
    """

    heading: str
    whole: Callable[[T], object]
    short: Callable[[T], str | Text] | None = None

    def for_people(self, item: T) -> Text:
        return _text(self.whole(item) if self.short is None else self.short(item))


def print_list(output: str, items: Sequence[T], shape: Callable[[T], Any], columns: Sequence[Column[T]], *, empty: str) -> None:
    """Print a list in the form that was asked for.

    :param empty: what people read when there is nothing.
    """
    if output in ("json", "yaml"):
        print_data(output, [shape(item) for item in items])
    else:
        print_rows(output, items, columns, empty=empty)


def print_rows(output: str, items: Sequence[T], columns: Sequence[Column[T]], *, empty: str) -> None:
    """Print rows as a table, or as plain text."""
    if output == "plain":
        rows = [[_plain(column.whole(item)) for column in columns] for item in items]
        if rows:
            # Without disable_numparse an id such as 1234e567… would be printed as the number that it looks like.
            print(tabulate(rows, headers=[column.heading for column in columns], tablefmt="plain", disable_numparse=True))
    elif not items:
        print(empty)
    else:
        table = SimpleTable(show_header=True, caption=None)  # type: ignore[no-untyped-call]  # Airflow's
        cells = {column.heading: [column.for_people(item) for item in items] for column in columns}
        said = {heading: texts for heading, texts in cells.items() if any(texts)}  # a column that says nothing takes no room
        for heading in said:
            table.add_column(heading)
        for row in zip(*said.values(), strict=True):
            table.add_row(*row)
        console().print(table)


def none_of(what: str, *, filters: Iterable[object] = (), after: object = None, empty: str | None = None) -> str:
    """Return what people read in place of a list without entries.

    :param what: the entries, in the plural.
    :param filters: the values of the options that narrow the list.
    :param after: where the page starts; ``None`` for the first page.
    :param empty: the sentence for a list that nothing narrows; without it, "No … yet.".
    """
    if any(each not in (None, False, [], ()) for each in filters):
        return f"No {what} match the filter."
    if after is not None:
        return f"No more {what}."
    return empty or f"No {what} yet."


def print_one(output: str, data: Any, fields: Mapping[str, object]) -> None:
    """Print one thing: its data for programs, its fields for people.

    :param fields: a name and a value, text or rich text, on a line each.
    """
    if output in ("json", "yaml"):
        print_data(output, data)
        return
    width = max(len(name) for name in fields) + 2
    for name, value in fields.items():
        if output == "plain":
            print(f"{name}\t{_plain(value)}")
        else:
            console().print(Text(f"{name:<{width}}", "dim").append_text(_text(value)), soft_wrap=True)


def print_data(output: str, data: Any) -> None:
    """Print JSON or YAML."""
    if output == "yaml":
        import yaml

        print(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), end="")
    else:
        print(json.dumps(data, indent=2 if sys.stdout.isatty() else None, allow_nan=False))


def say(text: str) -> None:
    """A word for people beside the output."""
    print(text, file=sys.stderr)


def log_to_stderr() -> None:
    """Airflow does so by itself only for commands that take ``--output``."""
    from airflow.cli.utils import redirect_stdout_log_handlers_to_stderr

    sys.stdout.flush()
    redirect_stdout_log_handlers_to_stderr()


def is_for_people(output: str) -> bool:
    return output == "table"


def console() -> AirflowConsole:
    """Colours only on a terminal, and never where NO_COLOR is set (rich alone would still print bold letters)."""
    colours = None if os.environ.get("NO_COLOR") or not sys.stdout.isatty() else "auto"
    return AirflowConsole(color_system=colours, highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """Replace control characters, which could move the cursor or colour the terminal: an error's text may come from anywhere."""
    return text.translate(UNPRINTABLE)


def status_text(status: str) -> Text:
    """Return a job's state in its colour."""
    return Text(status, STATUS_STYLES.get(status, ""))


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as JSON and YAML have it
    return "" if value is None else str(value)


def _text(value: object) -> Text:
    return value.copy() if isinstance(value, Text) else Text(printable(_plain(value)))
