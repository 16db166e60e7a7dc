"""The columns that a ``where`` predicate may name, and what can be compared with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

Kind = Literal["truth", "number", "text", "null", "other", "unknown"]


def has_column(schema: Schema, name: str) -> bool:
    """Whether the schema has this column, or this field of a struct: ``place.city``."""
    return find_kind(schema, name.split(".")) is not None


def find_kind(schema: Schema, names: list[str]) -> Kind | None:
    """The kind of a column, or of a field in it; ``None`` when there is no such column."""
    field = next((each for each in schema.fields if each.name.lower() == names[0].lower()), None)
    return None if field is None else _kind_in(field.field_type, names[1:])


def _kind_in(type_: IcebergType, names: list[str]) -> Kind | None:
    from pyiceberg.types import ListType, StructType

    if isinstance(type_, ListType) and names:
        return "unknown" if _kind_in(type_.element_type, names) is not None else None
    if not isinstance(type_, StructType) or not names:
        return _kind(type_) if not names else ("unknown" if _is_map(type_) else None)
    field = next((each for each in type_.fields if each.name.lower() == names[0].lower()), None)
    return None if field is None else _kind_in(field.field_type, names[1:])


def _is_map(type_: IcebergType) -> bool:
    from pyiceberg.types import MapType

    return isinstance(type_, MapType)


def _kind(type_: IcebergType) -> Kind:
    from pyiceberg.types import BooleanType, DecimalType, DoubleType, FloatType, IntegerType, LongType, StringType

    if isinstance(type_, BooleanType):
        return "truth"
    if isinstance(type_, IntegerType | LongType | FloatType | DoubleType | DecimalType):
        return "number"
    # Spark casts a text to a truth value when it is used as a condition.
    return "unknown" if isinstance(type_, StringType) else "other"
