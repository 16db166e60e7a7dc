"""Tables between the registry of interim tables and an exchange folder: inputs on the way in, outputs on the way out.

    tables = ExchangedTables(handover, exchange)
    exchange.write_call(entry, [tables.in_place_of_refs("flights", args[0])])
    ...
    xcom = tables.handed_on(exchange.result(code), entry)

The invariant: an entry returns only new tables, and tables and views that it received. It must not get access to other tables
through a later task: by the name of a table, which that task would look up, or by a view whose SQL it would run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from airflow_snowpack.interim.errors import UnusableOutput
from airflow_snowpack.interim.names import DEFAULT_OUTPUT
from airflow_snowpack.interim.refs import TableRef, is_named, is_ref, read_ref, replace_refs
from airflow_snowpack.runners.entry import InputTable, ModuleEntry, ShellEntry
from airflow_snowpack.runners.errors import InvalidEntry, UnusableResult
from airflow_snowpack.runners.exchange import OutputTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_snowpack.interim.handover import TableHandover
    from airflow_snowpack.interim.refs import Ref
    from airflow_snowpack.runners.entry import Entry
    from airflow_snowpack.runners.exchange import EntryResult, Exchange

UNUSABLE_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")


class ExchangedTables:
    """The tables that one attempt shares with its entry; ``are_written`` if the inputs are already in the exchange folder."""

    def __init__(self, handover: TableHandover, exchange: Exchange, *, are_written: bool = False) -> None:
        self._handover = handover
        self._exchange = exchange
        self._are_written = are_written
        self._inputs: dict[str, Ref] = {}

    def write_input(self, name: str, ref: Ref) -> None:
        """Write the rows of a reference as the input ``name``; raise :class:`UnreadableView` if only Spark can read this view."""
        self._inputs[name] = ref
        if not self._are_written:
            self._exchange.write_input(name, self._handover.read_batches(ref))

    def in_place_of_refs(self, parameter: str, value: Any, form: str | None = None) -> Any:
        """Return the value with an :class:`InputTable` of this form instead of each reference, whose rows are written once."""
        return replace_refs(value, lambda ref: self._input(parameter, self._handover.recorded(ref), form))

    def handed_on(self, result: EntryResult, entry: Entry) -> Any:
        """Write the outputs of a successful entry as interim tables, and return its XCom.

        :raises UnusableOutput: the task has a name for its table, and the entry returned no table or several.
        :raises UnusableResult: the result has a reference that the entry did not receive, or the name of a table.
        """
        name, new = self._handover.options.name, len(list(_new_tables(result.value)))
        if name is not None and new != 1:
            raise UnusableOutput("name", name, f"the task returned {new} new tables, and a name is for one")
        received = self._received(result.value, entry)
        names_its_only_output = isinstance(entry, ShellEntry) and isinstance(received, OutputTable)
        return self._handed_on(received, result.outputs if names_its_only_output else ())

    def _input(self, parameter: str, ref: Ref, form: str | None) -> InputTable:
        name = next((name for name, written in self._inputs.items() if written == ref), None)
        if name is None:
            base = UNUSABLE_IN_A_NAME.sub("_", parameter)[:90]
            name = next(each for each in chain([base], (f"{base}_{n}" for n in count(2))) if each not in self._inputs)
            self.write_input(name, ref)
        return InputTable(name, form, ref.to_json())

    def _received(self, value: Any, entry: Entry) -> Any:
        """Return the value with a reference instead of each table that the entry received, before anything is written.

        An entry may be any image: what it returns is checked like any other input.
        """
        if isinstance(entry, ModuleEntry) and is_named(value):
            raise UnusableResult(entry.function, "it has the name of a table, which a later task would look up")
        if isinstance(entry, ModuleEntry) and is_ref(value):
            return self._received_ref(read_ref(value), entry)
        if isinstance(value, Mapping):
            return {key: self._received(item, entry) for key, item in value.items()}
        return [self._received(item, entry) for item in value] if isinstance(value, list | tuple) else value

    def _received_ref(self, given: Ref, entry: ModuleEntry) -> Ref:
        if not self._handover.has_received(given):
            raise UnusableResult(entry.function, "it has a reference to a table that is not among its arguments")
        ref = self._handover.recorded(given)
        if not isinstance(ref, TableRef) and ref not in self._inputs.values():
            raise UnusableResult(entry.function, "it has a reference to a view that is not among its arguments")
        return ref

    def _handed_on(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, OutputTable):
            rows = self._exchange.output(value.name).read_all()
            return self._handover.give(rows, ".".join(path) or DEFAULT_OUTPUT).to_json()
        if is_ref(value):
            self._handover.pass_on(value)
            return value.to_json()
        if isinstance(value, Mapping):
            return {key: self._handed_on(item, (*path, str(key))) for key, item in value.items()}
        if isinstance(value, list):
            return [self._handed_on(item, (*path, str(place))) for place, item in enumerate(value)]
        return value


def _new_tables(value: Any) -> Iterator[OutputTable]:
    """Yield each new table of a result; a frame that is returned twice becomes two tables."""
    if isinstance(value, OutputTable):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _new_tables(item)


def input_ref(name: str, value: Any) -> Ref:
    """Return the reference of a shell entry's input; raise :class:`InvalidEntry` if the input is not one table."""
    if not is_ref(value):
        raise InvalidEntry("inputs", name, f"its value is of type {type(value).__name__}, and an input is one table")
    return read_ref(value)
