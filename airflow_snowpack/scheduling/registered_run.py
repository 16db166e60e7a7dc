"""A registered run: a DAG's run under a name, with what it is given each time and, if it has a cron, when.

    features = RegisteredRun(
        "features_daily",
        dag_id="make_features",
        conf={"table": "analytics.page_views", "days": 7},
        cron="0 8 * * *",
        tz="Europe/Berlin",
        preservation="FULL",
    )
    features.conf_of_run({"days": 30}, None)   # {"table": …, "days": 30, "snowpack_run": {…}}

The invariant: a registered run that exists is valid, and each of its runs, by its cron or by hand, carries in its conf which
one it is and what is to become of its interim tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_snowpack.preservation import RUN_KEY, Preservation
from airflow_snowpack.scheduling.cron import check_cron, check_zone
from airflow_snowpack.scheduling.declared import parse_text
from airflow_snowpack.scheduling.errors import InvalidRun, InvalidSchedule
from airflow_snowpack.scheduling.schedule import (
    Schedule,
    parse_conf,
    parse_dag_id,
    parse_description,
    parse_flag,
    parse_name,
    read_field,
)
from airflow_snowpack.scheduling.triggers.by_hand import ByHand
from airflow_snowpack.scheduling.triggers.clock_triggers import Cron

OURS = (RUN_KEY, "snowpack")
"""What Snowpack itself writes into a run's conf."""


@dataclass(frozen=True)
class RegisteredRun:
    """A run as it is registered.

    :param name: unique among registered runs and schedules; as a schedule's name.
    :param conf: what each run gets as its ``dag_run.conf``. Whoever starts one by hand may say more, or other values.
    :param cron: when it runs by itself: five fields, or six with the seconds first; ``None`` for only by hand.
    :param tz: the IANA zone of the cron; ``UTC`` without a cron.
    :param preservation: of its runs' interim tables, unless a task or whoever starts it says another; ``None`` leaves it to the
        installation.
    :param enabled: whether its cron counts; ``None`` for as it is, and a new one is enabled.
    :raises InvalidRun: a value that cannot be used, with the name of the field.
    """

    name: str
    dag_id: str
    conf: Mapping[str, Any] = field(default_factory=dict)
    cron: str | None = None
    tz: str = "UTC"
    preservation: Preservation | str | None = None
    enabled: bool | None = None
    description: str = ""

    def __post_init__(self) -> None:
        for name, parse in _READERS.items():
            object.__setattr__(self, name, _read(name, getattr(self, name), parse))
        if self.cron is None:
            object.__setattr__(self, "tz", "UTC")

    @classmethod
    def from_json(cls, said: object) -> RegisteredRun:
        """Read it from a body of the API.

        :raises InvalidRun: a field that is missing, not known, or not usable.
        """
        if not isinstance(said, Mapping):
            raise InvalidRun("run", said, "it must be a mapping of fields")
        for name in said:
            if name not in _READERS:
                raise InvalidRun(str(name), said[name], f"it is not known; use {', '.join(_READERS)}")
        for name in ("name", "dag_id"):
            if name not in said:
                raise InvalidRun(name, None, "it is missing")
        return cls(**said)

    def schedule(self, *, enabled: bool) -> Schedule:
        """Return the schedule that it is."""
        return Schedule(
            self.name,
            dag_id=self.dag_id,
            trigger=ByHand() if self.cron is None else Cron(self.cron, self.tz),
            conf=self.conf_of_run({}, None),
            enabled=enabled,
            description=self.description,
        )

    def conf_of_run(self, given: Mapping[str, Any], preservation: Preservation | None) -> dict[str, Any]:
        """What one run gets: its own values over the defaults, key by key. A value that is an object is replaced as a whole.

        :param preservation: what was asked for this run; ``None`` for what is registered.
        """
        kept = self.preservation if preservation is None else preservation
        told = {"name": self.name, "preservation": None if kept is None else str(kept), "explicit": preservation is not None}
        return {**self.conf, **given, RUN_KEY: told}


def read_given(conf: object, preservation: object) -> tuple[Mapping[str, Any], Preservation | None]:
    """What somebody gives for one run: values for its conf, and what is to become of its interim tables.

    :raises InvalidRun: the conf is no JSON object or has a key of Snowpack's own, or the preservation is none.
    """
    return _read("conf", {} if conf is None else conf, _conf), _read("preservation", preservation, _preservation)


def _read(name: str, value: Any, parse: Callable[[Any], Any]) -> Any:
    try:
        return read_field(name, value, parse)
    except InvalidSchedule as error:
        raise InvalidRun(error.field, error.value, error.problem) from error


def _conf(value: object) -> Mapping[str, Any]:
    conf = parse_conf(value)
    for name in OURS:
        if name in conf:
            raise ValueError(f"{name!r} is what Snowpack itself tells a run; leave it out")
    return conf


def _cron(value: object) -> str | None:
    return None if value is None else check_cron(parse_text(value))


def _zone(value: object) -> str:
    return check_zone(parse_text(value))


def _preservation(value: object) -> Preservation | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in tuple(Preservation):
        raise ValueError(f"it must be {' or '.join(Preservation)}, or be left out")
    return Preservation(value)


def _enabled(value: object) -> bool | None:
    return None if value is None else parse_flag(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "name": parse_name,
    "dag_id": parse_dag_id,
    "conf": _conf,
    "cron": _cron,
    "tz": _zone,
    "preservation": _preservation,
    "enabled": _enabled,
    "description": parse_description,
}
