"""What one task passes to the next instead of rows: a reference to a table or to a view of it.

    ref.to_json()                                       # the XCom: plain JSON, because Airflow refuses foreign classes
    ref.where("distance > 500").select("origin", "distance").order_by("distance desc").limit(10)
    find_refs({"args": [xcom, 7]}) == [TableRef(…)]
    report(features=named_table("features", scope="global"))     # resolved when the task runs

Invariants: ``read_ref(ref.to_json()) == ref``. A view has no data, so a task that needs a view needs its table. A view is one
query, evaluated as in SQL: filter, order, limit, columns. This module is cheap to import, because every DAG file may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from airflow_snowpack.interim.errors import InvalidInterimRef
from airflow_snowpack.interim.names import Producer, Scope

MARK = "snowpack"
TABLE, VIEW, NAMED = "table", "view", "named"


@dataclass(frozen=True, slots=True)
class TableRef:
    """A reference to a committed interim table, which never changes again.

    :param table: the full name, ``catalog.namespace.table``.
    :param snapshot_id: what to read; ``None`` for an empty table without a snapshot.
    :param rows: the number of rows; ``None`` if unknown.
    """

    table_id: str
    table: str
    snapshot_id: int | None
    rows: int | None
    producer: Producer

    @property
    def of(self) -> TableRef:
        """The table itself; views have this property, too."""
        return self

    def where(self, condition: str) -> ViewRef:
        """Return a view of the rows for which this SQL condition is true."""
        return ViewRef(self).where(condition)

    def select(self, *columns: str) -> ViewRef:
        """Return a view with these columns."""
        return ViewRef(self).select(*columns)

    def order_by(self, *order: str) -> ViewRef:
        """Return a view in this order: column names, or SQL like ``"distance desc"``."""
        return ViewRef(self).order_by(*order)

    def limit(self, rows: int) -> ViewRef:
        """Return a view with at most this many rows."""
        return ViewRef(self).limit(rows)

    def to_json(self) -> dict[str, Any]:
        """Return the reference as JSON, for an XCom."""
        return {MARK: TABLE, **asdict(self)}


@dataclass(frozen=True, slots=True)
class ViewRef:
    """A view of a part of an interim table. It has no data.

    :param condition: SQL that is true for its rows; ``None`` for all rows.
    :param columns: ``None`` for all.
    :param order: SQL terms like ``"distance desc"``.
    :param rows: the maximum number of rows; ``None`` for no limit.
    """

    of: TableRef
    condition: str | None = None
    columns: tuple[str, ...] | None = None
    order: tuple[str, ...] = ()
    rows: int | None = None

    def __post_init__(self) -> None:
        if not (texts := [text for text in (self.condition, *self.order) if text]):
            return
        from airflow_snowpack.literal import check_literal  # most DAG files have no such view

        for text in texts:
            try:
                check_literal(text)
            except ValueError as problem:
                raise InvalidInterimRef(text, f"the SQL {problem}") from None

    @property
    def producer(self) -> Producer:
        """The output that produced the table."""
        return self.of.producer

    def where(self, condition: str) -> ViewRef:
        """Return the view with only rows that also meet this SQL condition.

        :raises InvalidInterimRef: it is empty, or the view already has a limit.
        """
        self._refuse_after_limit("filter")
        if not condition.strip():
            raise InvalidInterimRef(condition, 'a condition is SQL that is true or false for a row, such as "distance > 500"')
        # On separate lines, because a comment at the end of one condition must not hide what follows.
        both = condition if self.condition is None else f"({self.condition}\n) AND ({condition}\n)"
        return replace(self, condition=both)

    def select(self, *columns: str) -> ViewRef:
        """Return the view with only these columns, in this order.

        :raises InvalidInterimRef: there is no column, or one that this view does not have.
        """
        unknown = [name for name in columns if self.columns is not None and name not in self.columns]
        if not columns or unknown:
            raise InvalidInterimRef(list(columns), f"name at least one column{f'; the view has no {unknown}' if unknown else ''}")
        return replace(self, columns=columns)

    def order_by(self, *order: str) -> ViewRef:
        """Return the view in this order, replacing its order; raise :class:`InvalidInterimRef` if it already has a limit."""
        self._refuse_after_limit("order")
        return replace(self, order=order)

    def limit(self, rows: int) -> ViewRef:
        """Return the view with at most this many rows, the smaller of two limits; raise :class:`InvalidInterimRef` below 0."""
        if rows < 0:
            raise InvalidInterimRef(rows, "a limit is not negative")
        return replace(self, rows=rows if self.rows is None else min(rows, self.rows))

    def to_json(self) -> dict[str, Any]:
        """Return the reference as JSON, for an XCom."""
        return {
            MARK: VIEW,
            "of": self.of.to_json(),
            "where": self.condition,
            "columns": None if self.columns is None else list(self.columns),
            "order_by": list(self.order),
            "limit": self.rows,
        }

    def _refuse_after_limit(self, what: str) -> None:
        if self.rows is not None:
            raise InvalidInterimRef(self.to_json(), f"the view has a limit already; {what} it first, and limit it last")


Ref = TableRef | ViewRef


def is_ref(value: object) -> bool:
    """Return whether this is a reference or its JSON."""
    return isinstance(value, TableRef | ViewRef) or (isinstance(value, Mapping) and value.get(MARK) in (TABLE, VIEW))


def read_ref(value: object) -> Ref:
    """Parse a reference's JSON, or return a reference as it is; raise :class:`InvalidInterimRef` for anything else."""
    if isinstance(value, TableRef | ViewRef):
        return value
    if not isinstance(value, Mapping) or not is_ref(value):
        raise InvalidInterimRef(value, f"it has no {MARK!r} that is {TABLE!r} or {VIEW!r}")
    return _table(value) if value[MARK] == TABLE else _view(value)


def find_refs(value: object) -> list[Ref]:
    """Return all references in a value in order, at any depth of lists, tuples and dictionaries; raises like :func:`read_ref`."""
    found: list[Ref] = []
    replace_refs(value, found.append)
    return found


def replace_refs(value: Any, by: Callable[[Ref], Any]) -> Any:
    """Return the value with each reference replaced; sequences other than tuples become lists. Raises like :func:`read_ref`."""
    if is_ref(value):
        return by(read_ref(value))
    match value:
        case Mapping():
            return {key: replace_refs(item, by) for key, item in value.items()}
        case tuple():
            items = [replace_refs(item, by) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        case Sequence() if not isinstance(value, str | bytes | bytearray):
            return [replace_refs(item, by) for item in value]
    return value


def named_table(name: str, scope: Scope | str = Scope.RUN) -> dict[str, Any]:
    """Return a task argument for the table to which this name points when the task runs.

    A name is not a dependency: a task that needs another task's table of the same run must run after it: ``clean >> report``.

    :param scope: ``run`` for a name of the same DAG run, ``global`` for a name that is valid everywhere.
    :raises ValueError: an unknown scope.
    """
    return {MARK: NAMED, "name": name, "scope": Scope(scope).value}


def is_named(value: object) -> bool:
    """Return whether this is an argument from :func:`named_table`."""
    return isinstance(value, Mapping) and value.get(MARK) == NAMED


def read_named(value: Mapping[str, Any]) -> tuple[str, Scope]:
    """Return the name and its scope, or raise :class:`InvalidInterimRef` if the argument is damaged."""
    try:
        return str(value["name"]), Scope(value["scope"])
    except (KeyError, ValueError) as problem:
        raise InvalidInterimRef(value, f"a named table has a name and a scope, {' or '.join(Scope)}") from problem


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
    """Return a field of exactly this type: what is stored is what is read."""
    found = value.get(name)
    if found is None and or_none:
        return None
    if not isinstance(found, kind) or isinstance(found, bool):
        raise InvalidInterimRef(value, f"its {name!r} is {found!r:.60}")
    return found
