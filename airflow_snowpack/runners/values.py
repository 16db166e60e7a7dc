"""Values as JSON, on their way to the function of a module entry and back.

    sent = json.dumps(encode({"day": date(2026, 11, 23)}, lambda value, path: None))
    decode(json.loads(sent), lambda tag, found: None)            # {"day": datetime.date(2026, 11, 23)}

It needs only the standard library, since it also runs inside the entry. The invariant: a value arrives equal to what was sent, or
:class:`NotSerializable` names what cannot be sent. A subclass, such as an enumeration, arrives as its plain value.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

TAG = "$snowpack"
"""The key that marks a value without a JSON type."""


class NotSerializable(TypeError):
    """A value cannot be sent.

    :ivar path: where it is, such as ``["scores"][3]``.
    :ivar problem: what it is, such as ``is of type threading.Lock``.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem = path, problem


def encode(value: Any, special: Callable[[Any, str], Any], path: str = "") -> Any:
    """Return the value as JSON: ``None``, booleans, numbers, text, lists and dictionaries as they are, and some others tagged.

    :param special: returns the JSON of a value that only the caller supports, from the value and its path; otherwise ``None``.
    :param path: where the value is.
    :raises NotSerializable: for a value of any other type.
    """
    try:
        return _encoded(value, special, path)
    except RecursionError:
        raise NotSerializable(path, "contains itself, or is nested too deeply") from None


def _encoded(value: Any, special: Callable[[Any, str], Any], path: str) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if (own := special(value, path)) is not None:
        return own
    if isinstance(value, dict):
        items = [(key, _encoded(item, special, f"{path}[{key!r}]")) for key, item in value.items()]
        if all(type(key) is str for key in value) and TAG not in value:
            return dict(items)
        return {TAG: "dict", "items": [[_encoded(key, special, f"{path} key {key!r}"), item] for key, item in items]}
    if isinstance(value, list | tuple):
        items = [_encoded(item, special, f"{path}[{place}]") for place, item in enumerate(value)]
        return {TAG: "tuple", "items": items} if isinstance(value, tuple) else items
    return _encoded_scalar(value, path)


def _encoded_scalar(value: Any, path: str) -> Any:
    if isinstance(value, str | int | float):  # a subclass, such as an enumeration
        return next(base(value) for base in (str, int, float) if isinstance(value, base))
    if isinstance(value, bytes | bytearray):
        return {TAG: "bytes", "base64": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {TAG: "decimal", "text": str(value)}
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        raise NotSerializable(path, f"is of type {type_name(value)} with nanoseconds, which would be cut off")
    if isinstance(value, datetime) and value == value:  # pandas' value for "no time" does not equal itself
        return {TAG: "datetime", "text": datetime.isoformat(value), "zone": _zone_of(value)}
    if isinstance(value, date) and not isinstance(value, datetime):
        return {TAG: "date", "text": date.isoformat(value)}
    if isinstance(value, time) and value.tzinfo is None:
        return {TAG: "time", "text": time.isoformat(value)}
    if isinstance(value, timedelta):
        return {TAG: "timedelta", "parts": [value.days, value.seconds, value.microseconds]}
    if getattr(value, "shape", None) == () and value.dtype.kind in "biuf":  # a numpy scalar
        found = value.item()
        if type(found) in (bool, int, float):
            return found
    raise NotSerializable(path, f"is of type {type_name(value)}")


def _zone_of(value: datetime) -> str | None:
    """Return the name of the time zone; ``None`` if it is only an offset."""
    name = getattr(value.tzinfo, "key", None) or getattr(value.tzinfo, "name", None)
    if isinstance(name, str) and name != "UTC":
        try:
            return name if value.astimezone(ZoneInfo(name)).utcoffset() == value.utcoffset() else None
        except (ValueError, KeyError, OSError):  # not a name, or missing on this system
            return None
    return None if name is None else "UTC"


def _in_zone(value: datetime, zone: str | None) -> datetime:
    if zone is None:
        return value
    return value.astimezone(UTC if zone == "UTC" else ZoneInfo(zone))


def decode(value: Any, special: Callable[[str, dict[str, Any]], Any]) -> Any:
    """Return the value that :func:`encode` received; ``special`` returns the value of the caller's own JSON, by its tag."""
    if isinstance(value, list):
        return [decode(item, special) for item in value]
    if not isinstance(value, dict):
        return value
    match value.get(TAG):
        case None:
            return {key: decode(item, special) for key, item in value.items()}
        case "dict":
            return {decode(key, special): decode(item, special) for key, item in value["items"]}
        case "tuple":
            return tuple(decode(item, special) for item in value["items"])
        case "bytes":
            return base64.b64decode(value["base64"])
        case "decimal":
            return Decimal(value["text"])
        case "datetime":
            return _in_zone(datetime.fromisoformat(value["text"]), value["zone"])
        case "date":
            return date.fromisoformat(value["text"])
        case "time":
            return time.fromisoformat(value["text"])
        case "timedelta":
            return timedelta(*value["parts"])
        case tag:
            return special(tag, value)


def type_name(value: object) -> str:
    """Return the full name of the class of a value, without ``builtins``."""
    return class_name(type(value)).removeprefix("builtins.")


def class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
