"""Reads arguments that Airflow has rendered, which turns a list into its text unless the DAG renders native objects.

    read_names('["expire_snapshots"]'), read_names("['expire_snapshots']"), read_names("expire_snapshots, rewrite_manifests")
    read_object('{"expire_snapshots": {"retain_last": 5}}')

What the values mean is for the domain to check; here they only get their shape back.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_snowpack.errors import SnowpackError


class UnreadableArgument(SnowpackError):
    """A rendered argument that has not the shape that its operator needs."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"The argument {name} = {str(value)[:200]!r} cannot be read. Give {expected}.")


def read_names(name: str, value: object) -> list[str]:
    """A list of names from a list, a JSON array, the text of a Python list, or names separated by commas."""
    if isinstance(value, str):
        value = (
            _parse(value) if value.strip().startswith(("[", "(")) else [part.strip() for part in value.split(",") if part.strip()]
        )
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, str) for item in value):
        return [str(item) for item in value]
    raise UnreadableArgument(name, value, "a list of names, a JSON array, or names separated by commas")


def read_object(name: str, value: object) -> dict[str, Any]:
    """A dictionary from a mapping, a JSON object or the text of a Python dictionary; nothing is an empty one."""
    if isinstance(value, str):
        value = _parse(value) if value.strip() else {}
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    raise UnreadableArgument(name, value, "a dictionary or a JSON object")


def read_flag(name: str, value: object) -> bool:
    """True or false from a boolean or its text."""
    if isinstance(value, bool):
        return value
    known = {"true": True, "1": True, "false": False, "0": False, "none": False, "": False}
    text = str(value).strip().lower()
    if text not in known:
        raise UnreadableArgument(name, value, "True or False")
    return known[text]


def read_text(value: object) -> str | None:
    """A text, or ``None`` for what a template renders when there is nothing."""
    text = str(value).strip() if value is not None else ""
    return text if text and text != "None" else None


def _parse(text: str) -> object:
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError):
            continue
    return text
