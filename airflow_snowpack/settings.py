"""The configuration section ``[snowpack]`` as typed values. Configuration is read here and nowhere else.

    settings = Settings.load()
    settings.policy.lease            # datetime.timedelta(seconds=1800)
    settings.store_path              # /opt/airflow/snowpack.db, used when store_conn_id is empty

:data:`airflow_snowpack.provider_info.CONFIG` has the types, defaults and descriptions of the options. The invariant: a
:class:`Settings` that exists is valid.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.setting import (
    AirflowOptions,
    InvalidSetting as InvalidSetting,
    home_folder,
    read_execution,
    read_level,
    read_optional,
    read_setting,
    setting_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_snowpack.jobs.model import LifecyclePolicy
    from airflow_snowpack.setting import Execution, Options

SHORTEST_REQUEST_TIMEOUT = timedelta(seconds=5)


def _address(text: str) -> str:
    """Return a URL unchanged and a path made absolute, so that it is the same for processes in any working directory."""
    return text.rstrip("/") if not text or "://" in text else str(Path(text).expanduser().absolute())


def _folder(text: str) -> Path | None:
    return Path(text).expanduser().absolute() if text else None


def _required(text: str) -> str:
    if not text:
        raise ValueError("it must not be empty")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _patterns(text: str) -> tuple[str, ...]:
    patterns = _names(text)
    if any(Path(pattern).is_absolute() or ".." in Path(pattern).parts for pattern in patterns):
        raise ValueError("each pattern must be relative to the DAGs folder, and stay below it")
    return patterns


def _probes(text: str) -> Mapping[str, str]:
    probes: dict[str, str] = {}
    for entry in _names(text):
        name, _, target = (part.strip() for part in entry.partition("="))
        module, _, function = target.partition(":")
        if not LEVEL.fullmatch(name) or not all(part.isidentifier() for part in (*module.split("."), function)):
            raise ValueError(f"{entry!r} must be a name and a function, such as yarn=my_company.load:yarn")
        if name in probes:
            raise ValueError(f"the name {name!r} is there twice")
        probes[name] = target
    return probes


def _object(text: str) -> str:
    module, _, name = text.partition(":")
    if text and not all(part.isidentifier() for part in (*module.split("."), name)):
        raise ValueError("it must be package.module:name")
    return text


def _policies(text: str) -> str:
    if Path(text).suffix not in (".yaml", ".yml", ".py"):
        raise ValueError("it must be the path of a file that ends in .yaml, .yml or .py")
    return text


def _order(text: str) -> tuple[str, ...]:
    from airflow_snowpack.maintenance.action import DEFAULT_ORDER, parse_order

    return parse_order(text.split(",")) if text else DEFAULT_ORDER


def _builder(text: str) -> str:
    from airflow_snowpack.runners.images.target import BUILDERS

    if text not in BUILDERS:
        raise ValueError(f"it must be one of {', '.join(BUILDERS)}")
    return text


def _period(text: str) -> timedelta:
    from airflow_snowpack.durations import parse_duration

    period = parse_duration(text)
    if period <= timedelta(0):
        raise ValueError("it must be longer than 0s")
    return period


def _request_timeout(text: str) -> timedelta:
    timeout = _period(text)
    if timeout < SHORTEST_REQUEST_TIMEOUT:
        raise ValueError("it must be 5s or longer, because connecting to Postgres may take 2 s")
    return timeout


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise ValueError("it must be a whole number of at least 1")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 65_536:
        raise ValueError("it must be a whole number from 1 to 65535")
    return int(text)


def _flag(text: str) -> bool:
    known = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    if text.lower() not in known:
        raise ValueError("it must be True or False")
    return known[text.lower()]


def _string_map(text: str) -> Mapping[str, str]:
    value = json.loads(text or "{}")
    if not isinstance(value, dict):
        raise ValueError('it must be a JSON object such as {"spark.executor.memory": "4g"}')
    return {str(key): str(item) for key, item in value.items()}


def option(read: Callable[[str], Any], *, repr: bool = True) -> Any:
    """Return the field of an option of the section, which has the name of the field.

    :param read: converts its text; the ``ValueError`` states what is allowed.
    """
    return field(repr=repr, metadata={"read": read})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an installation.

    :param store_path: the embedded store, used when ``store_conn_id`` is ``None``.
    :param home: the folder of the embedded catalog and warehouse, used when ``catalog_conn_id`` is ``None``.
    """

    store_path: Path
    home: Path
    policy: LifecyclePolicy
    store_conn_id: str | None = option(read_optional)
    catalog_conn_id: str | None = option(read_optional)
    catalog_name: str = option(read_level)
    spark_conn_id: str | None = option(read_optional)
    spark_master: str = option(_required)
    spark_driver_memory: str = option(_required)
    spark_packages: tuple[str, ...] = option(_names)
    spark_conf: Mapping[str, str] = option(_string_map)
    execution: Execution = option(read_execution)
    action_order: tuple[str, ...] = option(_order)
    continue_on_error: bool = option(_flag)
    table_cache_refresh: timedelta = option(_period)
    table_poll: timedelta = option(_period)
    load_probes: Mapping[str, str] = option(_probes)
    notifiers: str = option(_object)
    resume_delay: timedelta = option(_period)
    policies: str = option(_policies)
    schedule_files: tuple[str, ...] = option(_patterns)
    update_schedules: bool = option(_flag)
    builds_url: str = option(_address)
    builds_conn_id: str | None = option(read_optional)
    interim_namespace: str = option(read_level)
    interim_sweep_after: timedelta = option(_period)
    image_builder: str = option(_builder)
    image_registry_conn_id: str | None = option(read_optional)
    runner_folder: Path = option(_folder)
    airflow_conn_id: str | None = option(read_optional)
    listen_to_airflow: bool = option(_flag)
    request_timeout: timedelta = option(_request_timeout)
    api_host: str = option(_required)
    api_port: int = option(_port)
    api_token: str | None = option(read_optional, repr=False)

    @classmethod
    def load(cls, options: Options | None = None) -> Settings:
        """Read the section.

        :param options: ``None`` for Airflow's configuration.
        :raises InvalidSetting: with the key, the value and what is allowed.
        """
        options = options or AirflowOptions()
        home, policy = home_folder(options), _read_policy(options)
        read = [(each.name, each.metadata["read"]) for each in fields(cls) if each.metadata]
        values = {name: read_setting(name, parse, options) for name, parse in read}
        values["builds_url"] = values["builds_url"] or str(home / "builds")
        values["runner_folder"] = values["runner_folder"] or home / "entries"
        return cls(options.home / "snowpack.db", home, policy, **values)


def resume_delay() -> timedelta:
    """Return only the minimum time between a task's deferral and its resumption.

    :raises InvalidSetting: it is not a duration.
    """
    return read_setting("resume_delay", _period)


def _read_policy(options: Options) -> LifecyclePolicy:
    from airflow_snowpack.jobs.model import LifecyclePolicy

    policy = LifecyclePolicy(
        lease=read_setting("lease", _period, options),
        heartbeat=read_setting("heartbeat", _period, options),
        fence_check=read_setting("fence_check", _period, options),
        max_attempts=read_setting("max_attempts", _count, options),
        retry_base=read_setting("retry_base", _period, options),
    )
    if policy.heartbeat >= policy.lease:
        raise InvalidSetting(
            "heartbeat",
            setting_text("heartbeat", options),
            f"it must be shorter than the lease, {setting_text('lease', options)}",
        )
    return policy
