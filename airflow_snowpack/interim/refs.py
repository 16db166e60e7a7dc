"""What one task hands to the next instead of rows: the ref of a table, or of a view on it.

    ref.to_json()                                       # the XCom: plain JSON, as Airflow refuses foreign classes
    ref.where("distance > 500").select("origin", "distance").order_by("distance desc").limit(10)
    find_refs({"args": [xcom, 7]}) == [TableRef(…)]

The invariants: ``read_ref(ref.to_json()) == ref``; a view shares its table, so who needs the view needs the table; and a view is
one query, read as SQL reads it: filter, then order, then limit, then columns. Importing this module costs nothing: it is what
every task and every DAG file may touch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_snowpack.interim.errors import InvalidInterimRef
from airflow_snowpack.interim.names import Producer, Scope

MARK = "snowpack"
TABLE, VIEW = "table", "view"


@dataclass(frozen=True, slots=True)
class TableRef:
    """An interim table that was handed on. It never changes again.

    :param table_id: its identity in the store.
    :param table: the whole name, ``catalog.namespace.table``.
    :param snapshot_id: what is to be read; ``None`` for a table without a snapshot, which is empty.
    :param rows: how many it has; ``None`` when nobody counted.
    """

    table_id: str
    table: str
    snapshot_id: int | None
    rows: int | None
    producer: Producer

    @property
    def of(self) -> TableRef:
        """The table itself, so that a table and a view on it can be asked alike."""
        return self

    def where(self, condition: str) -> ViewRef:
        """Only the rows for which this SQL condition is true."""
        return ViewRef(self).where(condition)

    def select(self, *columns: str) -> ViewRef:
        """Only these columns."""
        return ViewRef(self).select(*columns)

    def order_by(self, *order: str) -> ViewRef:
        """In this order: column names, or SQL such as ``"distance desc"``."""
        return ViewRef(self).order_by(*order)

    def limit(self, rows: int) -> ViewRef:
        """At most so many rows."""
        return ViewRef(self).limit(rows)

    def to_json(self) -> dict[str, Any]:
        """The XCom."""
        return {
            MARK: TABLE,
            "table_id": self.table_id,
            "table": self.table,
            "snapshot_id": self.snapshot_id,
            "rows": self.rows,
            "producer": self.producer.to_json(),
        }


@dataclass(frozen=True, slots=True)
class ViewRef:
    """A look at a part of an interim table. It has no data of its own.

    :param condition: SQL that is true for the rows in it; ``None`` for all.
    :param columns: ``None`` for all.
    :param order: SQL terms such as ``"distance desc"``.
    :param rows: at most so many.
    """

    of: TableRef
    condition: str | None = None
    columns: tuple[str, ...] | None = None
    order: tuple[str, ...] = ()
    rows: int | None = None

    @property
    def producer(self) -> Producer:
        """Who made the table below."""
        return self.of.producer

    def where(self, condition: str) -> ViewRef:
        """Only the rows for which this SQL condition is true as well.

        :raises InvalidInterimRef: it is empty, or the view has a limit already.
        """
        self._before_limit("filter")
        if not condition.strip():
            raise InvalidInterimRef(condition, 'a condition is SQL that is true or false for a row, such as "distance > 500"')
        # On lines of their own, so that a comment at the end of one does not swallow what comes after it.
        both = condition if self.condition is None else f"({self.condition}\n) AND ({condition}\n)"
        return replace(self, condition=both)

    def select(self, *columns: str) -> ViewRef:
        """Only these columns, in this order.

        :raises InvalidInterimRef: none is given, or one that this view has left out already.
        """
        unknown = [name for name in columns if self.columns is not None and name not in self.columns]
        if not columns or unknown:
            raise InvalidInterimRef(list(columns), f"name at least one column{f'; the view has no {unknown}' if unknown else ''}")
        return replace(self, columns=columns)

    def order_by(self, *order: str) -> ViewRef:
        """In this order, instead of the one before.

        :raises InvalidInterimRef: the view has a limit already.
        """
        self._before_limit("order")
        return replace(self, order=order)

    def limit(self, rows: int) -> ViewRef:
        """At most so many rows; of two limits the smaller one holds.

        :raises InvalidInterimRef: it is negative.
        """
        if rows < 0:
            raise InvalidInterimRef(rows, "a limit is not negative")
        return replace(self, rows=rows if self.rows is None else min(rows, self.rows))

    def to_json(self) -> dict[str, Any]:
        """The XCom."""
        return {
            MARK: VIEW,
            "of": self.of.to_json(),
            "where": self.condition,
            "columns": None if self.columns is None else list(self.columns),
            "order_by": list(self.order),
            "limit": self.rows,
        }

    def _before_limit(self, what: str) -> None:
        if self.rows is not None:
            raise InvalidInterimRef(self.to_json(), f"the view is limited already; {what} it first, and limit it last")


Ref = TableRef | ViewRef


def is_ref(value: object) -> bool:
    """Whether this is a ref, or the JSON of one."""
    return isinstance(value, TableRef | ViewRef) or (isinstance(value, Mapping) and value.get(MARK) in (TABLE, VIEW))


def read_ref(value: object) -> Ref:
    """Read what :meth:`TableRef.to_json` or :meth:`ViewRef.to_json` gave; a ref is returned as it is.

    :raises InvalidInterimRef: it is none, or a field is missing or of another type.
    """
    if isinstance(value, TableRef | ViewRef):
        return value
    if not isinstance(value, Mapping) or not is_ref(value):
        raise InvalidInterimRef(value, f"it has no {MARK!r} that says {TABLE!r} or {VIEW!r}")
    return _table(value) if value[MARK] == TABLE else _view(value)


def find_refs(value: object) -> list[Ref]:
    """All refs in a value, however deep in lists, tuples and dictionaries, in the order in which they are met.

    :raises InvalidInterimRef: something that says it is a ref is damaged.
    """
    return list(_found(value))


def replace_refs(value: Any, by: Callable[[Ref], Any]) -> Any:
    """The same value, with something else in the place of each ref. Sequences other than lists and tuples become lists.

    :raises InvalidInterimRef: something that says it is a ref is damaged.
    """
    if is_ref(value):
        return by(read_ref(value))
    match value:
        case Mapping():
            return {key: replace_refs(item, by) for key, item in value.items()}
        case tuple():
            items = [replace_refs(item, by) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        case _ if _is_sequence(value):
            return [replace_refs(item, by) for item in value]
    return value


def _found(value: Any) -> Iterator[Ref]:
    if is_ref(value):
        yield read_ref(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _found(item)
    elif _is_sequence(value):
        for item in value:
            yield from _found(item)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _table(value: Mapping[str, Any]) -> TableRef:
    producer = _field(value, "producer", Mapping)
    return TableRef(
        table_id=_field(value, "table_id", str),
        table=_field(value, "table", str),
        snapshot_id=_field(value, "snapshot_id", int, or_none=True),
        rows=_field(value, "rows", int, or_none=True),
        producer=Producer(
            **{name: _field(producer, name, str) for name in ("dag_id", "run_id", "task_id", "output")},
            map_index=_field(producer, "map_index", int),
        ),
    )


def _view(value: Mapping[str, Any]) -> ViewRef:
    columns = _texts(value, "columns", or_none=True)
    return ViewRef(
        of=_table(_field(value, "of", Mapping)),
        condition=_field(value, "where", str, or_none=True),
        columns=None if columns is None else tuple(columns),
        order=tuple(_texts(value, "order_by") or ()),
        rows=_field(value, "limit", int, or_none=True),
    )


def _texts(value: Mapping[str, Any], name: str, *, or_none: bool = False) -> list[str] | None:
    texts: list[str] | None = _field(value, name, list, or_none=or_none)
    if texts is not None and not all(isinstance(text, str) for text in texts):
        raise InvalidInterimRef(value, f"its {name!r} must be a list of texts")
    return texts


def _field(value: Mapping[str, Any], name: str, kind: Any, *, or_none: bool = False) -> Any:
    """Its own type, so that what is stored is what is read."""
    found = value.get(name)
    if found is None and or_none:
        return None
    if not isinstance(found, kind) or isinstance(found, bool):
        raise InvalidInterimRef(value, f"its {name!r} is {found!r:.60}")
    return found


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
