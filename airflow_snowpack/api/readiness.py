"""Whether the process can serve, part by part.

look(services)["store"].says    # 'The store answers.'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from airflow_snowpack.api.reasons import reason_in_words, told_outside
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.store import StoreUnreachable

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_snowpack.api.services import LazyServices
    from airflow_snowpack.inventory import InventoryState

PERIODS = 2  # so old may the list of tables be


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that must be ready."""

    ready: bool
    says: str


def look(lazy: LazyServices) -> dict[str, Part]:
    """The store, and the list of tables."""
    try:
        services = lazy.get()
        state, now = services.inventory.state(), services.jobs.store.clock()
    except (StoreUnreachable, SQLAlchemyError) as error:
        return _without_store(f"The store does not answer: {reason_in_words(error)}.")
    except SnowpackError as error:
        return _without_store(told_outside(error))
    age = None if state.refreshed_at is None else (now - state.refreshed_at).total_seconds()
    return {"store": Part(True, "The store answers."), "tables": _tables(state, age, PERIODS * services.refresh_every)}


def _without_store(why: str) -> dict[str, Part]:
    return {"store": Part(False, why), "tables": Part(False, "The list of tables is not known without the store.")}


def _tables(state: InventoryState, age: float | None, allowed: timedelta) -> Part:
    # A probe may be nobody, and a driver's message names addresses and users.
    why = " The last try failed; `GET /tables` says why." if state.problem else ""
    if age is None:
        return Part(False, f"The catalog was never listed.{why}")
    if age > allowed.total_seconds():
        return Part(False, f"The list of tables is {age:.0f} s old, more than {allowed.total_seconds():.0f} s.{why}")
    return Part(True, f"The list of tables is {max(age, 0):.0f} s old.")
