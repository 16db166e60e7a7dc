"""Shapes: what a resource's JSON has, where each value comes from, and its schema in the OpenAPI document.

    class LockShape(Shape):
        table_name: Annotated[Level, From("table.table")]
        holder: str = Field(description="A job's id, or the name that an operator gave.")

    LockShape.encode(lock)      # {"table_name": "flights", "holder": "5f3c…"}

A field reads the attribute of its own name, or its ``From``, or what the caller of :meth:`Shape.encode` gives. Times
become text in UTC with microseconds, enums their values, and other shapes their own JSON.

The invariant: no shape takes a field that it does not name, and no value is converted on the way in: ``"yes"`` is not a boolean.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from airflow_snowpack.iceberg.names import LEVEL

Body = dict[str, Any]

Moment = Annotated[datetime | None, Field(examples=["2026-04-25T14:35:00.000000+00:00"])]
Level = Annotated[str, Field(pattern=f"^{LEVEL.pattern}$", examples=["page_views"])]
Database = Annotated[str, Field(pattern=rf"^{LEVEL.pattern}(\.{LEVEL.pattern})*$", examples=["analytics"])]
CatalogId = Annotated[
    str,
    Field(description="The fingerprint of the catalog's address; empty for jobs of older releases.", examples=["3f2a91bc04de"]),
]


class From:
    """Where a field's value comes from, when that is not the attribute of its name.

    :param read: the path of an attribute, such as ``table.database``, or a function of the source.
    """

    def __init__(self, read: str | Callable[[Any], object]) -> None:
        self.read: Callable[[Any], object] = attrgetter(read) if isinstance(read, str) else read


class Shape(BaseModel):
    """The base of all shapes."""

    # Validators are built when a body is first validated: a command that prints one resource needs none of them.
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    @classmethod
    def encode(cls, source: object, **given: object) -> Body:
        """Return the JSON of a value.

        :param given: values of fields that the source does not have; they are encoded like the others.
        """
        return {
            field.name: field.encode(given[field.name] if field.name in given else field.read(source)) for field in _fields(cls)
        }


class _FieldOf(NamedTuple):
    name: str
    read: Callable[[Any], object]
    shape: type[Shape] | None
    many: bool

    def encode(self, value: Any) -> Any:
        if self.shape is None or value is None:
            return plain(value)
        values = value if self.many else [value]
        encoded = [each if isinstance(each, dict) else self.shape.encode(each) for each in values]  # a dict is encoded already
        return encoded if self.many else encoded[0]


@cache
def _fields(shape: type[Shape]) -> tuple[_FieldOf, ...]:
    fields = []
    for name, info in shape.model_fields.items():
        sources = [each for each in info.metadata if isinstance(each, From)]
        read = sources[0].read if sources else attrgetter(name)
        fields.append(_FieldOf(name, read, *_shape_in(info.annotation)))
    return tuple(fields)


def _shape_in(annotation: Any) -> tuple[type[Shape] | None, bool]:
    """Return the shape of ``Shape``, ``Shape | None`` and ``list[Shape]``, and whether it is a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        return annotation, False
    for each in get_args(annotation):
        shape, many = _shape_in(each)
        if shape is not None:
            return shape, many or get_origin(annotation) is list
    return None, False


def page_shape(name: str, about: str, entries: str, shape: type[Shape], kind: type = str) -> type[Shape]:
    """Return the shape of a page of a list with the name ``entries``, whose cursors are of this kind."""
    fields: dict[str, Any] = {
        entries: (list[shape], ...),  # type: ignore[valid-type]  # mypy takes no types from values
        "next": (kind | None, Field(description="The `cursor` of the next page.")),
    }
    return create_model(name, __base__=Shape, __doc__=about, **fields)


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    match value:
        case Enum():
            return value.value
        case datetime():
            return value.isoformat(timespec="microseconds")
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return dict(value)
        case tuple() | list():
            return [plain(each) for each in value]
        case _:
            return value


def seconds_since(value: datetime | None, now: datetime) -> float | None:
    """Return how many seconds ago a time was, 0 for one to come."""
    return None if value is None else max((now - value).total_seconds(), 0.0)
