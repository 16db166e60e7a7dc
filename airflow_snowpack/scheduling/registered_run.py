"""A registered run: named defaults for the runs of a DAG, with a cron or without.

    features = RegisteredRun(
        "features_daily",
        dag_id="make_features",
        conf={"table": "analytics.page_views", "days": 7},
        cron="0 8 * * *",
        tz="Europe/Berlin",
        preservation="FULL",
    )
    features.conf_of_run({"days": 30}, None)   # {"table": …, "days": 30, "snowpack_run": {…}}

The invariant: a registered run that exists is valid, and each of its runs, by its cron or by hand, finds in its conf its name and
the preservation of its interim tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow_snowpack.preservation import RUN_KEY, Preservation
from airflow_snowpack.scheduling.cron import parse_cron, parse_zone
from airflow_snowpack.scheduling.declared import optional
from airflow_snowpack.scheduling.errors import InvalidRun, InvalidSchedule
from airflow_snowpack.scheduling.schedule import (
    Schedule,
    parse_conf,
    parse_dag_id,
    parse_description,
    parse_flag,
    parse_name,
    read_field,
    read_fields,
)
from airflow_snowpack.scheduling.triggers.clock_triggers import ByHand, Cron

OURS = (RUN_KEY, "snowpack")
"""The keys that Snowpack writes into a run's conf."""


@dataclass(frozen=True)
class RegisteredRun:
    """The definition of a registered run.

    :param name: unique among registered runs and schedules, in the form of a schedule's name.
    :param conf: the ``dag_run.conf`` of each run. A run that is started by hand may add or replace values.
    :param cron: when it starts: five fields, or six with the seconds first; ``None`` for only by hand.
    :param tz: the IANA zone of the cron; ``UTC`` without a cron.
    :param preservation: of its runs' interim tables, unless a task or the request for a run sets another; ``None`` leaves it to
        the installation.
    :param enabled: whether its cron is active; ``None`` keeps it as it is, and enables a new one.
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
        with _invalid_run():
            for name, parse in _READERS.items():
                object.__setattr__(self, name, read_field(name, getattr(self, name), parse))
        if self.cron is None:
            object.__setattr__(self, "tz", "UTC")

    @classmethod
    def from_json(cls, value: object) -> RegisteredRun:
        """Read it from a body of the API.

        :raises InvalidRun: a field that is missing, not known, or not usable.
        """
        with _invalid_run():
            return cls(**read_fields("run", value, known=_READERS, required=("name", "dag_id")))

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
        """Return the conf of one run: its values replace the defaults key by key; a value that is an object is replaced as a
        whole.

        :param preservation: of this run; ``None`` for the registered one.
        """
        kept = self.preservation if preservation is None else preservation
        registration = {
            "name": self.name,
            "preservation": None if kept is None else str(kept),
            "explicit": preservation is not None,
        }
        return {**self.conf, **given, RUN_KEY: registration}


def read_given(conf: object, preservation: object) -> tuple[Mapping[str, Any], Preservation | None]:
    """Read the values for one run: of its conf, and the preservation of its interim tables.

    :raises InvalidRun: the conf is not a JSON object or has a reserved key, or the preservation is not known.
    """
    with _invalid_run():
        given = {} if conf is None else conf
        return read_field("conf", given, _conf), read_field("preservation", preservation, _preservation)


@contextmanager
def _invalid_run() -> Iterator[None]:
    """Raise what is wrong with a field as :class:`InvalidRun`."""
    try:
        yield
    except InvalidSchedule as error:
        raise InvalidRun(error.field, error.value, error.problem) from error


def _conf(value: object) -> Mapping[str, Any]:
    conf = parse_conf(value)
    for name in OURS:
        if name in conf:
            raise ValueError(f"the key {name!r} is reserved; leave it out")
    return conf


def _preservation(value: object) -> Preservation | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in tuple(Preservation):
        raise ValueError(f"it must be {' or '.join(Preservation)}, or be left out")
    return Preservation(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "name": parse_name,
    "dag_id": parse_dag_id,
    "conf": _conf,
    "cron": optional(parse_cron),
    "tz": parse_zone,
    "preservation": _preservation,
    "enabled": optional(parse_flag),
    "description": parse_description,
}
