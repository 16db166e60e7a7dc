"""Rows as somebody has them in Python, as Arrow batches with one schema.

    batches = RowBatches([{"id": 1, "name": "a"}, {"id": 2, "name": None}], "id")
    batches.schema, list(batches)

It takes a table, a reader, or any iterable of batches, tables or dictionaries. The invariant: nothing is dropped or bent in
passing: a value or column that does not fit the schema is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, TypeAlias

import pyarrow as pa

from airflow_snowpack.builds.errors import InvalidBuild, InvalidKey
from airflow_snowpack.builds.keys import KEY_TYPES, KeyType, canonical
from airflow_snowpack.builds.sharding import key_type_of

DICTIONARIES_AT_ONCE = 10_000

Rows: TypeAlias = "pa.Table | pa.RecordBatchReader | Iterable[pa.RecordBatch | pa.Table | Mapping[str, Any]]"


class RowBatches:
    """Can be gone through once.

    :param schema: that of the rows; without it the first ones decide: the first batch, or the first 10,000 dictionaries.
    :raises InvalidBuild: there are neither rows nor a schema.
    """

    def __init__(self, rows: Rows, key_column: str, schema: pa.Schema | None = None) -> None:
        self._key = key_column
        self._told = schema or getattr(rows, "schema", None)
        batches = self._batches(iter(rows.to_batches() if isinstance(rows, pa.Table) else rows))
        first = next(batches, None)
        if first is None and self._told is None:
            raise InvalidBuild("rows", [], "there are none to tell the columns from; name the schema")
        self.schema: pa.Schema = first.schema if first is not None and self._told is None else self._told
        self._rest = batches if first is None else chain([first], batches)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._rest

    def _batches(self, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for row in rows:
            if isinstance(row, pa.RecordBatch):
                yield row
            elif isinstance(row, pa.Table):
                yield from row.to_batches()
            elif isinstance(row, Mapping):
                yield from self._from_dictionaries(chain([row], rows))
            else:
                raise InvalidBuild("rows", row, f"{type(row).__name__} is neither an Arrow batch nor a table nor a dictionary")

    def _from_dictionaries(self, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        while some := list(islice(rows, DICTIONARIES_AT_ONCE)):
            if self._told is None:
                self._told = self._inferred(some)
            names = set(self._told.names)
            for row in some:
                if not isinstance(row, Mapping) or not names.issuperset(row):
                    raise InvalidBuild(
                        "rows", row, f"each must be a dictionary with no other names than {', '.join(self._told.names)}"
                    )
            yield self._converted(some, self._told)

    def _inferred(self, some: list[Mapping[str, Any]]) -> pa.Schema:
        names = list(dict.fromkeys(name for row in some for name in row))
        return self._converted([{name: row.get(name) for name in names} for row in some], None).schema

    def _converted(self, some: list[Mapping[str, Any]], schema: pa.Schema | None) -> pa.RecordBatch:
        try:
            return pa.RecordBatch.from_pylist(some, schema)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            self._blame_key(some, schema)
            raise InvalidBuild("rows", "…", f"they do not fit one schema ({error}); name it, or correct the rows") from error

    def _blame_key(self, some: list[Mapping[str, Any]], schema: pa.Schema | None) -> None:
        """:raises InvalidKey: a key is what does not fit."""
        keys = [row.get(self._key) for row in some]
        try:
            pa.array(keys, schema.field(self._key).type if schema is not None else None)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            sound = next((key for key in keys if key is not None), None)
            kind = _key_type(self._key, sound) if schema is None else key_type_of(self._key, schema.field(self._key).type)
            for key in keys:
                canonical(key, kind)
            raise InvalidKey(sound, f"the keys do not fit one type ({error})") from error


def _key_type(column: str, key: object) -> KeyType:
    """What kind of key a value is; Arrow has no value for some integers and texts, which are still of that kind."""
    kind = next((kind for python, kind in KEY_TYPES.items() if isinstance(key, python) and not isinstance(key, bool)), None)
    return key_type_of(column, pa.array([key]).type) if kind is None else kind
