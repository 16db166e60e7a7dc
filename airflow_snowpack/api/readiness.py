"""Whether the process can serve, part by part.

look(services).parts["store"].says    # 'The store answers.'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from airflow_snowpack.api.reasons import reason_in_words, told_outside
from airflow_snowpack.api.roles import RoleReport, read_roles
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


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a probe returns.

    :param parts: each part that must be ready.
    :param roles: the background roles. A missing one is reported here and leaves the process ready: it can serve, and another
        process of the API would miss the same role.
    """

    parts: dict[str, Part]
    roles: tuple[RoleReport, ...] = ()


def look(lazy: LazyServices) -> Readiness:
    """The store, the list of tables, and the background roles."""
    try:
        services = lazy.get()
        state, now = services.inventory.state(), services.jobs.store.clock()
        roles = read_roles(services.jobs.store, services.dag_states)
    except (StoreUnreachable, SQLAlchemyError) as error:
        return _without_store(f"The store does not answer: {reason_in_words(error)}.")
    except SnowpackError as error:
        return _without_store(told_outside(error))
    age = None if state.refreshed_at is None else (now - state.refreshed_at).total_seconds()
    parts = {"store": Part(True, "The store answers."), "tables": _tables(state, age, PERIODS * services.refresh_every)}
    return Readiness(parts, tuple(roles))


def _without_store(why: str) -> Readiness:
    return Readiness({"store": Part(False, why), "tables": Part(False, "The list of tables is not known without the store.")})


def _tables(state: InventoryState, age: float | None, allowed: timedelta) -> Part:
    # A probe may be nobody, and a driver's message names addresses and users.
    why = " The last try failed; `GET /tables` says why." if state.problem else ""
    if age is None:
        return Part(False, f"The catalog was never listed.{why}")
    if age > allowed.total_seconds():
        return Part(False, f"The list of tables is {age:.0f} s old, more than {allowed.total_seconds():.0f} s.{why}")
    return Part(True, f"The list of tables is {max(age, 0):.0f} s old.")
