"""The output of commands: a table for people, or JSON, YAML and plain text for programs.

    print_page(args, JOBS, page.items, page.next, now)
    print_one(args.output, DrainShape.encode(state), {"drain mode": "on"})

Tables look like those of Airflow's own commands. Airflow's ``AirflowConsole.print_as`` is not used: it turns every number and
``null`` into text, reads brackets as markup, and needs Airflow, which ``snowpack assess`` does without.

The invariant: stdout has the output and nothing else. Other messages go to stderr (:func:`note`).
"""

import json
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from rich.box import ASCII_DOUBLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tabulate import tabulate  # type: ignore[import-untyped]  # it ships no types

from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import Body
from airflow_snowpack.wire.tone import Tone, tone_of

T = TypeVar("T")

DATA = ("json", "yaml")
PIPED_WIDTH = 200
"""The width of a table, in characters, when stdout is not a terminal."""
STYLES = {Tone.NEUTRAL: "dim", Tone.ACTIVE: "cyan", Tone.GOOD: "green", Tone.WARNING: "yellow", Tone.BAD: "bold red"}
CONTROL_CHARACTERS = (*range(32), 127, *range(128, 160))
UNPRINTABLE = {code: "\N{REPLACEMENT CHARACTER}" for code in CONTROL_CHARACTERS if chr(code) not in "\n\t"}


def print_list(output: str, listing: Listing[T], items: Sequence[T], now: datetime, *, empty: str = "") -> None:
    """Print a list that has no pages; people read ``empty`` in place of an empty one."""
    if output in DATA:
        print_data(output, [listing.body(item) for item in items])
    else:
        print_rows(output, listing.columns, items, now, empty=empty)


def print_page(
    args: Namespace,
    listing: Listing[T],
    items: Sequence[T],
    next_: object,
    now: datetime,
    *,
    filters: Iterable[object] = (),
    empty: str | None = None,
    **more: Any,
) -> None:
    """Print a page of a list.

    :param next_: the cursor of the page after this one; ``None`` for the last page.
    :param filters: the values of the options that narrow the list.
    :param empty: what people read when nothing narrows the list and it is empty; without it, "No … yet.".
    :param more: what else the JSON has.
    """
    if args.output in DATA:
        print_data(args.output, listing.page(items, next_, **more))
        return
    nothing = none_of(listing.noun or listing.name, filters=filters, after=args.cursor, empty=empty)
    print_rows(args.output, listing.columns, items, now, empty=nothing)
    if next_ is not None:
        note(f"There are more: --cursor {next_} shows the next page.")


def print_rows(output: str, columns: Sequence[Column[T]], items: Sequence[T], now: datetime, *, empty: str = "") -> None:
    """Print rows as a table, or as plain text."""
    if output == "plain":
        rows = [[_plain(column.for_programs(item, now)) for column in columns] for item in items]
        if rows:
            # Without disable_numparse an id such as 1234e567… would be printed as the number that it looks like.
            print(tabulate(rows, headers=[column.heading for column in columns], tablefmt="plain", disable_numparse=True))
    elif not items:
        print(empty)
    else:
        table = Table(box=ASCII_DOUBLE_HEAD, show_edge=False, pad_edge=False)
        cells = {column.heading: [_cell(column, item, now) for item in items] for column in columns}
        shown = {heading: texts for heading, texts in cells.items() if any(texts)}  # an empty column takes no room
        for heading in shown:
            table.add_column(heading)
        for row in zip(*shown.values(), strict=True):
            table.add_row(*row)
        console().print(table)


def none_of(what: str, *, filters: Iterable[object] = (), after: object = None, empty: str | None = None) -> str:
    """Return what people read in place of an empty list. The parameters are those of :func:`print_page`."""
    if any(each not in (None, False, [], ()) for each in filters):
        return f"No {what} match the filter."
    if after is not None:
        return f"No more {what}."
    return empty or f"No {what} yet."


def print_one(output: str, data: Any, fields: Mapping[str, object]) -> None:
    """Print one value: its data for programs, its fields for people, one on each line."""
    if output in DATA:
        print_data(output, data)
        return
    width = max(len(name) for name in fields) + 2
    for name, value in fields.items():
        if output == "plain":
            print(f"{name}\t{_plain(value)}")
        else:
            console().print(Text(f"{name:<{width}}", "dim").append_text(_text(value)), soft_wrap=True)


def print_result(output: str, text: str, data: Body, fields: Mapping[str, object] | None = None) -> None:
    """Print what a command did or found: a text for people, the value for programs."""
    if is_for_people(output):
        print(text)
    else:
        print_one(output, data, data if fields is None else fields)


def filled(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value}


def print_data(output: str, data: Any) -> None:
    if output == "yaml":
        import yaml

        print(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), end="")
    else:
        print(json.dumps(data, indent=2 if sys.stdout.isatty() else None, allow_nan=False))


def note(text: str) -> None:
    """Print a message for people to stderr."""
    print(text, file=sys.stderr)


def log_to_stderr() -> None:
    """Send the log to stderr, as Airflow 3.3 does for commands with ``--output`` only, and Airflow 3.1 and 3.2 never do."""
    sys.stdout.flush()
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            handler.setStream(sys.stderr)


def is_for_people(output: str) -> bool:
    """Return whether the output is a table; other forms are for programs."""
    return output == "table"


def console() -> Console:
    """Return a console with colours on a terminal only, and never with NO_COLOR (rich alone would still print bold text)."""
    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") or not sys.stdout.isatty() else "auto"
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return Console(width=width, color_system=colours, highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """Replace control characters, which could move the cursor or colour the terminal: an error's text may come from anywhere."""
    return text.translate(UNPRINTABLE)


def coloured(text: str, state: str) -> Text:
    """Return text in the colour of a state."""
    return Text(printable(text), STYLES[tone_of(state)])


def _cell(column: Column[T], item: T, now: datetime) -> Text:
    tone = column.tone(item)
    return Text(printable(column.for_people(item, now)), STYLES[tone] if tone else "")


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as JSON and YAML have it
    return "" if value is None else str(value)


def _text(value: object) -> Text:
    return value.copy() if isinstance(value, Text) else Text(printable(_plain(value)))
