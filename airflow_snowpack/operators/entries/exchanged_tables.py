"""Tables between the interim registry and an exchange folder: inputs on the way in, outputs on the way out.

    inputs = Inputs(handover, exchange)
    exchange.write_call(entry, [inputs.in_place_of_refs("flights", args[0])])
    ...
    xcom = handed_on(exchange.result(code), exchange, handover, entry)

The invariant: an entry returns new tables and references that it received, and no other table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from airflow_snowpack.interim.errors import UnusableOutput
from airflow_snowpack.interim.names import DEFAULT_OUTPUT
from airflow_snowpack.interim.refs import find_refs, is_ref, read_ref, replace_refs
from airflow_snowpack.runners.entry import InputTable, ModuleEntry, ShellEntry
from airflow_snowpack.runners.errors import InvalidEntry, UnusableResult
from airflow_snowpack.runners.exchange import OutputTable

if TYPE_CHECKING:
    from airflow_snowpack.interim.handover import Handover
    from airflow_snowpack.interim.refs import Ref
    from airflow_snowpack.runners.entry import Entry
    from airflow_snowpack.runners.exchange import EntryResult, Exchange

UNUSABLE_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")


class Inputs:
    """Writes the tables in an entry's arguments into its exchange folder, each reference once."""

    def __init__(self, handover: Handover, exchange: Exchange) -> None:
        self._handover = handover
        self._exchange = exchange
        self._names: dict[Ref, str] = {}

    def write(self, name: str, ref: Ref) -> None:
        """Write the rows of a reference as the input of this name.

        :raises UnreadableView: only Spark can read this view.
        """
        self._exchange.write_input(name, self._handover.read_arrow(ref))

    def in_place_of_refs(self, parameter: str, value: Any, form: str | None = None) -> Any:
        """Return the value with an :class:`InputTable` in place of each reference.

        :param form: see :class:`InputTable`.
        """
        return replace_refs(value, lambda ref: self._input(parameter, ref, form))

    def _input(self, parameter: str, ref: Ref, form: str | None) -> InputTable:
        ref = self._handover.recorded(ref)
        name = self._names.get(ref)
        if name is None:
            base, taken = UNUSABLE_IN_A_NAME.sub("_", parameter)[:90], set(self._names.values())
            name = next(each for each in chain([base], (f"{base}_{number}" for number in count(2))) if each not in taken)
            self.write(name, ref)
            self._names[ref] = name
        return InputTable(name, form, ref.to_json())


def input_ref(name: str, value: Any) -> Ref:
    """Return the reference of a shell entry's input.

    :raises InvalidEntry: the input is not one table.
    """
    if not is_ref(value):
        raise InvalidEntry("inputs", name, f"its value is of type {type(value).__name__}, and an input is one table")
    return read_ref(value)


def handed_on(result: EntryResult, exchange: Exchange, handover: Handover, entry: Entry) -> Any:
    """Give the outputs of a successful entry to the handover, and return its XCom.

    :raises UnusableOutput: the task has a name for its table, and the entry returned none or several.
    :raises UnusableResult: the result has a reference that the entry did not receive.
    """
    name = handover.options.name
    if name is not None and len(result.outputs) != 1:
        raise UnusableOutput("name", name, f"the task returned {len(result.outputs)} new tables, and a name is for one")
    foreign = [ref.of.table for ref in find_refs(result.value) if not handover.has_received(ref)]
    if foreign and isinstance(entry, ModuleEntry):
        raise UnusableResult(entry.function, f"it refers to {foreign[0]}, which is not among its arguments")

    def given(value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, OutputTable):
            return handover.give(exchange.output(value.name), ".".join(path) or DEFAULT_OUTPUT).to_json()
        if is_ref(value):
            ref = read_ref(value)
            handover.pass_on(ref)
            return handover.recorded(ref).to_json()
        if isinstance(value, Mapping):
            return {key: given(item, (*path, str(key))) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [given(item, (*path, str(place))) for place, item in enumerate(value)]
        return value

    names_its_only_output = isinstance(entry, ShellEntry) and isinstance(result.value, OutputTable)
    return given(result.value, result.outputs if names_its_only_output else ())
