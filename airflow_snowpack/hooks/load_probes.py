"""Calls the load probes of ``[snowpack] load_probes``: functions without arguments that return a number.

    measure(["yarn"])        # {"yarn": 0.42}

Schedules, requests and gates only name them, so that no code runs that the installation has not registered.
"""

from __future__ import annotations

import logging
import math
from importlib import import_module
from typing import TYPE_CHECKING

from airflow_snowpack.scheduling.airflow_port import Unavailable
from airflow_snowpack.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

log = logging.getLogger(__name__)


def measure(names: Iterable[str], registered: Mapping[str, str] | None = None) -> Mapping[str, float | Unavailable]:
    """Call these probes. One that is not registered, fails or returns no number is unavailable.

    :param registered: the functions by name, as ``package.module:function``; ``None`` for those of the settings.
    """
    known = Settings.load().load_probes if registered is None else registered
    return {name: _measure(name, known) for name in names}


def _measure(name: str, registered: Mapping[str, str]) -> float | Unavailable:
    if name not in registered:
        return Unavailable(f"[snowpack] load_probes has no {name!r}")
    module, _, function = registered[name].partition(":")
    try:
        load = float(getattr(import_module(module), function)())
    except Exception as problem:  # the installation's own code: whatever it raises, runs that need the load wait
        log.warning("The load probe %s (%s) failed; runs that need it wait", name, registered[name], exc_info=True)
        return Unavailable(f"its probe failed with {type(problem).__name__}")
    return Unavailable("its probe returned nan") if math.isnan(load) else load
