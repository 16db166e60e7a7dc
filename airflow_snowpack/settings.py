"""The configuration section ``[snowpack]`` as typed values. Configuration is read here and nowhere else.

    settings = Settings.load()
    settings.policy.lease            # datetime.timedelta(seconds=1800)
    settings.store_path              # /opt/airflow/snowpack.db, used when store_conn_id is empty

:data:`airflow_snowpack.provider_info.CONFIG` has the types, defaults and descriptions of the options. The invariant: a
:class:`Settings` that exists is valid.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

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
    from collections.abc import Mapping

    from airflow_snowpack.jobs.model import LifecyclePolicy
    from airflow_snowpack.setting import Execution, Options

SHORTEST_REQUEST_TIMEOUT = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an installation.

    :param store_path: the embedded store, used when ``store_conn_id`` is ``None``.
    :param home: the folder of the embedded catalog and warehouse, used when ``catalog_conn_id`` is ``None``.
    """

    store_conn_id: str | None
    store_path: Path
    catalog_conn_id: str | None
    catalog_name: str
    home: Path
    spark_conn_id: str | None
    spark_master: str
    spark_driver_memory: str
    spark_packages: tuple[str, ...]
    spark_conf: Mapping[str, str]
    policy: LifecyclePolicy
    execution: Execution
    action_order: tuple[str, ...]
    continue_on_error: bool
    table_cache_refresh: timedelta
    table_poll: timedelta
    load_probes: Mapping[str, str]
    resume_delay: timedelta
    policies: str
    schedule_files: tuple[str, ...]
    update_schedules: bool
    builds_url: str
    builds_conn_id: str | None
    interim_namespace: str
    interim_sweep_after: timedelta
    image_builder: str
    image_registry_conn_id: str | None
    runner_folder: Path
    airflow_conn_id: str | None
    listen_to_airflow: bool
    request_timeout: timedelta
    api_host: str
    api_port: int
    api_token: str | None = field(repr=False)

    @classmethod
    def load(cls, options: Options | None = None) -> Settings:
        """Read the section.

        :param options: ``None`` for Airflow's configuration.
        :raises InvalidSetting: with the key, the value and what is allowed.
        """
        options = options or AirflowOptions()
        airflow_home = options.home
        read = partial(read_setting, options=options)
        home = home_folder(options)
        return cls(
            store_conn_id=read("store_conn_id", read_optional),
            store_path=airflow_home / "snowpack.db",
            catalog_conn_id=read("catalog_conn_id", read_optional),
            catalog_name=read("catalog_name", read_level),
            home=home,
            spark_conn_id=read("spark_conn_id", read_optional),
            spark_master=read("spark_master", _required),
            spark_driver_memory=read("spark_driver_memory", _required),
            spark_packages=read("spark_packages", _names),
            spark_conf=read("spark_conf", _string_map),
            policy=_read_policy(options),
            execution=read("execution", read_execution),
            action_order=read("action_order", _order),
            continue_on_error=read("continue_on_error", _flag),
            table_cache_refresh=read("table_cache_refresh", _period),
            table_poll=read("table_poll", _period),
            load_probes=read("load_probes", _probes),
            resume_delay=read("resume_delay", _period),
            policies=read("policies", _policies),
            schedule_files=read("schedule_files", _patterns),
            update_schedules=read("update_schedules", _flag),
            builds_url=read("builds_url", lambda text: _address(text) or str(home / "builds")),
            builds_conn_id=read("builds_conn_id", read_optional),
            interim_namespace=read("interim_namespace", read_level),
            interim_sweep_after=read("interim_sweep_after", _period),
            image_builder=read("image_builder", _builder),
            image_registry_conn_id=read("image_registry_conn_id", read_optional),
            runner_folder=read("runner_folder", lambda text: Path(text).expanduser().absolute() if text else home / "entries"),
            airflow_conn_id=read("airflow_conn_id", read_optional),
            listen_to_airflow=read("listen_to_airflow", _flag),
            request_timeout=read("request_timeout", _request_timeout),
            api_host=read("api_host", _required),
            api_port=read("api_port", _port),
            api_token=read("api_token", read_optional),
        )


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


def _address(text: str) -> str:
    """Return a URL unchanged and a path made absolute, so that it is the same for processes in any working directory."""
    return text.rstrip("/") if not text or "://" in text else str(Path(text).expanduser().absolute())


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
