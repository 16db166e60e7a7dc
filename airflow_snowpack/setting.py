"""Reads one option of Airflow's section ``[snowpack]``, and those that a DAG file needs.

Every parse of a DAG file loads this module, so it has no more than that; :mod:`airflow_snowpack.settings` has all options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.provider_info import CONFIG, SECTION

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MAY_HOLD_SECRETS = frozenset({"spark_conf"})


class InvalidSetting(SnowpackError, kind=Kind.MISCONFIGURED):
    """Invalid setting."""

    def __init__(self, key: str, value: str, problem: str) -> None:
        shown = "…" if key in MAY_HOLD_SECRETS else repr(value[:200])
        super().__init__(
            f"[{SECTION}] {key} = {shown} is not usable: {problem}. "
            f"Correct it in airflow.cfg or in the environment variable AIRFLOW__{SECTION.upper()}__{key.upper()}."
        )


def catalog_name() -> str:
    """Only the catalog's name: what a DAG file needs to name its assets.

    :raises InvalidSetting: it is not a name.
    """
    return read_setting("catalog_name", read_level)


def catalog_conn_id() -> str | None:
    """Return only the connection of the installation's catalog; ``None`` for the embedded catalog."""
    return read_setting("catalog_conn_id", read_optional)


def setting_text(key: str) -> str:
    """Return an option as it is written, or its default."""
    from airflow.configuration import conf

    default = str(CONFIG[SECTION]["options"][key]["default"])
    return str(conf.get(SECTION, key, fallback=default)).strip()


def read_setting(key: str, parse: Callable[[str], T]) -> T:
    """Return the value of an option.

    :param parse: reads the text; a ``ValueError`` says what is wrong with it.
    :raises InvalidSetting: the text cannot be used.
    """
    text = setting_text(key)
    try:
        return parse(text)
    except (ValueError, SnowpackError) as problem:
        raise InvalidSetting(key, text, str(problem).rstrip(".")) from problem


def read_optional(text: str) -> str | None:
    """Return the text, or ``None`` for an empty one."""
    return text or None


def read_level(text: str) -> str:
    """:raises ValueError: it is not one level of a table's name."""
    if not LEVEL.fullmatch(text):
        raise ValueError("it must start with a letter or an underscore and go on with letters, digits, underscores and hyphens")
    return text
