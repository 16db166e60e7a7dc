"""What was built, as the writer saw it: the manifest is made of this and of the winners.

    build_input = BuildInput.of(schema, "tail_number", sources=({"table": "lake.flights.departures", "snapshot_id": 42},))
    BuildInput.from_dict(build_input.as_dict()) == build_input      # it travels between tasks as JSON

The invariant: it tells the columns that the shards' files have, in their order and with their types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.keys import KeyType
from airflow_snowpack.builds.sharding import key_type_of


def check_sources(sources: tuple[dict[str, Any], ...]) -> None:
    """:raises InvalidBuild: a source is not what the manifest's JSON can hold."""
    try:
        json.dumps(sources, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is a ValueError too
        raise InvalidBuild("sources", sources, f"the manifest cannot hold it as JSON ({error})") from error


@dataclass(frozen=True, slots=True)
class BuildInput:
    """The input of a build.

    :param columns: the names and Arrow types of the columns, in order.
    :param sources: what was read, such as ``{"table": …, "snapshot_id": …}``.
    """

    key_column: str
    key_type: KeyType
    columns: tuple[tuple[str, str], ...]
    sources: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_sources(self.sources)

    @classmethod
    def of(cls, schema: pa.Schema, key_column: str, sources: tuple[dict[str, Any], ...] = ()) -> BuildInput:
        """Of files with this schema.

        :raises InvalidBuild: the key's column is of no type for a key.
        """
        key_type = key_type_of(key_column, schema.field(key_column).type)
        return cls(key_column, key_type, tuple((field.name, str(field.type)) for field in schema), sources)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "key_column": self.key_column,
            "key_type": self.key_type.value,
            "columns": [list(column) for column in self.columns],
            "sources": [dict(source) for source in self.sources],
        }

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> BuildInput:
        """What :meth:`as_dict` gave."""
        columns = tuple((str(name), str(kind)) for name, kind in told["columns"])
        return cls(told["key_column"], KeyType(told["key_type"]), columns, tuple(dict(source) for source in told["sources"]))
