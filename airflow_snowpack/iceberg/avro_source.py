"""Compiles the schema of an Avro file into one Python function that reads a few columns of its rows.

    source, tail = source_of(schema, (STATUS, RECORDS), required=(STATUS,))

The function calls PyIceberg's decoder; like ``dataclasses``, it is compiled from source: a manifest entry has about fifty values,
and a function call for each costs more than decoding it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

INTEGERS = ("int", "long")
LENGTHS = {"boolean": 1, "float": 4, "double": 8}
"""The number of bytes of a value."""
READ = {
    **dict.fromkeys(INTEGERS, "read_int()"),
    "boolean": "take(1) != b'\\0'",
    "float": "number(single(take(4)))",
    "double": "number(double(take(8)))",
    "bytes": "take(read_int())",
    "string": "take(read_int()).decode()",
}
"""The expression that reads a value of a type."""


def source_of(schema: str, field_ids: tuple[int, ...], required: Collection[int] = ()) -> tuple[str, list[Any]]:
    """Return the source of the function ``rows`` that reads files of an Avro schema, and the types after its last column.

    Only known types and whole numbers of the schema get into the source.
    """
    compiler = _Compiler({field_id: f"column_{place}" for place, field_id in enumerate(field_ids)}, required)
    return compiler.source(json.loads(schema))


class _Compiler:
    """Writes the source of a function that reads rows; ``columns`` are their variables, by field id."""

    def __init__(self, columns: dict[int, str], required: Collection[int]) -> None:
        self._columns = columns
        self._required, self._missing = frozenset(required), set(required)
        self._fixed: dict[str, Any] = {}
        self._lines: list[str] = []
        self._indent = 2
        self._variables = 0

    def source(self, record: dict[str, Any]) -> tuple[str, list[Any]]:
        fields = list(self._fields(record))
        last = max((place for place, field in enumerate(fields) if field.get("field-id") in self._columns), default=-1)
        for field in fields[: last + 1]:
            self._field(field)
        tail = self._tail([field["type"] for field in fields[last + 1 :]])
        if self._missing:
            raise KeyError(f"it has no field {min(self._missing)}")
        bound = [f"    {name} = decoder.{name}" for name in ("skip", "read_int", "read_ints")]
        bound += ["    position = decoder.tell", "    match = tail and tail.match"]
        bound += [f"    {' = '.join(self._columns.values())} = None"] if self._columns else []
        row = f"({''.join(f'{name}, ' for name in self._columns.values())})"
        begin = ["def rows(decoder, take, count, size, data, tail):", *bound, "    for _ in range(count):"]
        return "\n".join([*begin, *self._lines, f"        yield {row}"]), tail

    def _add(self, line: str) -> None:
        self._lines.append("    " * self._indent + line)

    def _new(self) -> str:
        self._variables += 1
        return f"value_{self._variables}"

    def _fields(self, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the fields; a record that is not a column is replaced by its fields."""
        for field in record["fields"]:
            if field.get("field-id") in self._columns or _name(field["type"]) != "record":
                yield field
            else:
                yield from self._fields(field["type"])

    def _field(self, field: dict[str, Any]) -> None:
        field_id: Any = field.get("field-id")
        column = self._columns.get(field_id)
        if column is None:
            self._skip(field["type"])
        else:
            self._read(field["type"], column)
        if field_id in self._missing:
            self._missing.remove(field_id)
        if field_id in self._required and isinstance(field["type"], list):
            self._add(f"if {column} is None: raise KeyError('a required field is null')")

    def _tail(self, kinds: list[Any]) -> list[Any]:
        """Add the code that skips the fields after the last column; return their types, each name with its definition."""
        if not kinds:
            return []
        self._add("begin = position()")
        self._add("found = match and match(data, begin)")
        self._add("if found: skip(found.end() - begin)")
        self._add("else:")
        self._indent += 1
        for kind in kinds:
            self._skip(kind)
        self._add("if tail: match = tail.learn(data, begin)")
        self._indent -= 1
        return [self._defined(kind) for kind in kinds]

    def _defined(self, kind: Any) -> Any:
        if isinstance(kind, list):
            return [self._defined(each) for each in kind]
        if _name(kind) == "array":
            return {"type": "array", "items": self._defined(kind["items"])}
        if _name(kind) == "record":
            return {"type": "record", "fields": [{"type": self._defined(field["type"])} for field in kind["fields"]]}
        kind = self._named(kind)
        return {"type": "fixed", "size": int(kind["size"])} if _name(kind) == "fixed" else _name(kind)

    def _named(self, kind: Any) -> Any:
        """Return the type that a name refers to: Avro defines a fixed type, such as a decimal, once, and then uses its name."""
        if _name(kind) == "fixed":
            self._fixed[str(kind.get("name"))] = kind
        return kind if not isinstance(kind, str) or kind in READ else self._fixed.get(kind, kind)

    def _branches(self, kinds: list[Any], act: Callable[[Any], None]) -> None:
        """Add the branches of a union, whose number comes first. Null needs no code."""
        branch, word = self._new(), "if"
        self._add(f"{branch} = read_int()")
        for place, kind in enumerate(kinds):
            if kind != "null":
                self._add(f"{word} {branch} == {place}:")
                self._indent += 1
                act(kind)
                self._indent -= 1
                word = "elif"
        null = kinds.index("null") if "null" in kinds else -1
        self._add(f"{word} {branch} != {null}: raise IndexError('a union has no such branch')")

    def _read(self, kind: Any, into: str) -> None:
        """Add the code that reads a value of this type into a variable."""
        kind = self._named(kind)
        if isinstance(kind, list):
            self._add(f"{into} = None")
            self._branches(kind, lambda branch: self._read(branch, into))
            return
        match _logical(kind), _name(kind):
            case "decimal", name:
                self._add(f"{into} = decimal({_bytes(name, kind)}, {int(kind.get('scale', 0))})")
            case "uuid", "fixed":
                self._add(f"{into} = as_uuid(take(16))")
            case _, "array":
                self._read_array(kind["items"], into)
            case _, "record":
                values = [self._new() for _ in kind["fields"]]
                for value, field in zip(values, kind["fields"], strict=True):
                    self._read(field["type"], value)
                self._add(f"{into} = ({''.join(f'{value}, ' for value in values)})")
            case _, "fixed":
                self._add(f"{into} = {_bytes('fixed', kind)}")
            case _, name:
                self._add(f"{into} = {READ[name]}")

    def _read_array(self, items: Any, into: str) -> None:
        """Add the code that reads an array; in Avro, a map with whole numbers as keys is an array of pairs."""
        count, item = self._new(), self._new()
        self._add(f"{into} = []")
        self._add(f"while {count} := read_int():")
        self._indent += 1
        self._add(f"if {count} < 0: read_int()  # the size of the block")
        self._add(f"if abs({count}) > size: cut_off()")
        self._add(f"for _ in range(abs({count})):")
        self._indent += 1
        self._read(items, item)
        self._add(f"{into}.append({item})")
        self._indent -= 2

    def _skip(self, kind: Any) -> None:
        """Add the code that skips a value of this type."""
        kind = self._named(kind)
        if isinstance(kind, list):
            self._branches(kind, self._skip)
            return
        match _name(kind):
            case "fixed":
                self._skip_bytes(int(kind["size"]))
            case "array":
                self._skip_array(kind["items"])
            case "record":
                for field in kind["fields"]:
                    self._skip(field["type"])
            case "bytes" | "string":
                length = self._new()
                self._add(f"{length} = read_int()")
                self._skip_bytes(length)
            case name if name in INTEGERS:
                self._add("read_int()  # not skip_int, which reads beyond the end")
            case name:
                self._add(f"skip({LENGTHS[name]})")

    def _skip_bytes(self, length: int | str) -> None:
        self._add(f"if {length} > size or {length} < 0: cut_off()")
        self._add(f"skip({length})")

    def _skip_array(self, items: Any) -> None:
        """Add the code that skips an array; the decoder skips numbers at once."""
        count, length, width = self._new(), self._new(), _whole_numbers(items)
        self._add(f"{count} = read_int()")
        self._add(f"while {count}:")
        self._indent += 1
        self._add(f"if not 0 < {count} * {width or 1} <= size:")
        self._indent += 1
        self._add(f"check_negative({count})")
        self._add(f"{length} = read_int()")
        self._skip_bytes(length)
        self._add(f"{count} = read_int()")
        self._add("continue")
        self._indent -= 1
        if width:
            # One more number: the count of the next block, which ends the array if it is 0.
            self._add(f"{count} = read_ints({width} * {count} + 1)[-1]")
        else:
            self._add(f"for _ in range({count}):")
            self._indent += 1
            self._skip(items)
            self._indent -= 1
            self._add(f"{count} = read_int()")
        self._indent -= 1


def _whole_numbers(items: Any) -> int:
    """Return how many whole numbers an item consists of; 0 if it contains anything else."""
    kinds = [items] if _name(items) != "record" else [field["type"] for field in items["fields"]]
    return len(kinds) if all(kind in INTEGERS for kind in kinds) else 0


def _name(kind: Any) -> str:
    """Return the name of an Avro type; ``union`` for a union."""
    if isinstance(kind, list):
        return "union"
    return str(kind if isinstance(kind, str) else kind["type"])


def _logical(kind: Any) -> str | None:
    return kind.get("logicalType") if isinstance(kind, dict) else None


def _bytes(name: str, kind: dict[str, Any]) -> str:
    return f"take({int(kind['size'])})" if name == "fixed" else READ["bytes"]
