"""Calls the load probes of ``[snowpack] load_probes``: functions without arguments that return a number.

    measure(["yarn"])        # {"yarn": 0.42}

Schedules, requests and gates only name them: no code runs that the installation has not registered. Each probe runs in a separate
thread with a time limit. One that hangs is set aside with a back-off; only what needs its number waits.
"""

from __future__ import annotations

import logging
import math
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from airflow_snowpack.redaction import redacted
from airflow_snowpack.scheduling.airflow_port import NOT_YET, Unavailable
from airflow_snowpack.settings import Settings
from airflow_snowpack.timed_calls import NoAnswer, TimedCalls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

log = logging.getLogger(__name__)

PROBE_LIMIT = timedelta(seconds=10)
"""How long a probe may take. It is called while schedules wait for its number."""


_calls: TimedCalls[tuple[str, str], float] = TimedCalls(lambda probe: f"The load probe {probe[0]}", limit=PROBE_LIMIT)


def measure(
    names: Iterable[str],
    registered: Mapping[str, str] | None = None,
    *,
    patience: timedelta | None = None,
    calls: TimedCalls[tuple[str, str], float] = _calls,
) -> Mapping[str, float | Unavailable]:
    """Call these probes. A probe that is not registered, fails, hangs or returns no number is unavailable.

    :param registered: the functions by name, as ``package.module:function``; ``None`` for those of the settings.
    :param patience: how long to wait for all of them; a later call returns a late number. ``None``: up to :data:`PROBE_LIMIT`.
    :param calls: remembers the probes that hang.
    """
    known = Settings.load().load_probes if registered is None else registered
    loads: dict[str, float | Unavailable] = {}
    wanted = {}
    for name in names:
        if name in known:
            loads[name] = NOT_YET
            wanted[name, known[name]] = partial(_call, known[name])
        else:
            loads[name] = Unavailable(f"[snowpack] load_probes has no {name!r}")
    for (name, function), result in calls.run(wanted, patience=patience):
        loads[name] = _load_of(name, function, result)
    return loads


def _call(function: str) -> float:
    module, _, name = function.partition(":")
    return float(getattr(import_module(module), name)())


def _load_of(name: str, function: str, result: float | Exception) -> float | Unavailable:
    if isinstance(result, NoAnswer):
        log.warning("load_probe_hangs: runs that need it wait: %s", result)
        return Unavailable(str(result).rstrip("."))
    if isinstance(result, Exception):
        log.warning("The load probe %s (%s) failed; runs that need it wait", name, function, exc_info=result)
        from airflow_snowpack.hooks.connections import message_of  # loads Airflow

        return Unavailable(f"its probe {function} failed with {redacted(message_of(result))}".rstrip("."))
    return Unavailable("its probe returned nan") if math.isnan(result) else result
