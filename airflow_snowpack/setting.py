"""Reads single options of Airflow's section ``[snowpack]``: those that a DAG file needs.

Every parse of a DAG file imports this module, so it stays small: the dataclass of :mod:`airflow_snowpack.settings`, which has all
options, takes 3 ms to define.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.provider_info import CONFIG, SECTION

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    T = TypeVar("T")
    Execution = Literal["inline", "queued"]

    class Options(Protocol):
        """Where the options of the section come from."""

        @property
        def home(self) -> Path:
            """AIRFLOW_HOME, the folder of the embedded store."""

        def text(self, key: str) -> str | None:
            """Return an option as it is written; ``None`` if it is not."""


MAY_HOLD_SECRETS = frozenset({"spark_conf"})


EXECUTIONS: tuple[Execution, ...] = ("inline", "queued")
"""Where a task's maintenance job runs: in the task itself, or in a worker, while the task waits in the triggerer."""


class InvalidSetting(SnowpackError, kind=Kind.MISCONFIGURED):
    """Invalid setting."""

    def __init__(self, key: str, value: str, problem: str) -> None:
        shown = "…" if key in MAY_HOLD_SECRETS else repr(value[:200])
        super().__init__(
            f"[{SECTION}] {key} = {shown} is not valid: {problem}. "
            f"Correct it in airflow.cfg or in the environment variable AIRFLOW__{SECTION.upper()}__{key.upper()}."
        )


def catalog_name() -> str:
    """Return the catalog's name.

    :raises InvalidSetting: it is not a valid name.
    """
    return read_setting("catalog_name", read_level)


def catalog_conn_id() -> str | None:
    """Return the connection of the installation's catalog; ``None`` for the embedded catalog."""
    return read_setting("catalog_conn_id", read_optional)


class AirflowOptions:
    """The options in Airflow's configuration."""

    @property
    def home(self) -> Path:
        """Airflow's own folder."""
        from pathlib import Path

        from airflow.configuration import AIRFLOW_HOME

        return Path(AIRFLOW_HOME).absolute()

    def text(self, key: str) -> str | None:
        """Return an option as Airflow reads it: from the environment, a command or the file."""
        from airflow.configuration import conf

        value: str | None = conf.get(SECTION, key, fallback=None)
        return value


def setting_text(key: str, options: Options) -> str:
    """Return an option as it is written, or its default."""
    text = options.text(key)
    return str(CONFIG[SECTION]["options"][key]["default"] if text is None else text).strip()


def read_setting(key: str, parse: Callable[[str], T], options: Options | None = None) -> T:
    """Return the value of an option.

    :param parse: converts the text; its ``ValueError`` states what is allowed.
    :param options: ``None`` for Airflow's configuration.
    :raises InvalidSetting: the text is not valid.
    """
    text = setting_text(key, options or AirflowOptions())
    try:
        return parse(text)
    except (ValueError, SnowpackError) as problem:
        raise InvalidSetting(key, text, str(problem).rstrip(".")) from problem


def home_folder(options: Options) -> Path:
    """Return the folder of the embedded catalog and warehouse, and of what processes of a machine share."""
    from pathlib import Path

    text = setting_text("home", options)
    return Path(text).expanduser().absolute() if text else options.home / "snowpack"


def read_optional(text: str) -> str | None:
    """Return the text, or ``None`` if it is empty."""
    return text or None


def read_level(text: str) -> str:
    """:raises ValueError: the text is not one level of a table name."""
    if not LEVEL.fullmatch(text):
        raise ValueError("it must start with a letter or an underscore and contain only letters, digits, underscores and hyphens")
    return text


def read_execution(text: str) -> Execution:
    """:raises ValueError: the text is not an execution."""
    for execution in EXECUTIONS:
        if text == execution:
            return execution
    raise ValueError(f"it must be {' or '.join(EXECUTIONS)}")
