"""What people have to know about, made in a line each by the domain's own calls.

fail(world, "payments.refunds", "Connection refused by 10.0.0.7:10000")
sicken(world, "payments.refunds", owner="payments")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from health_pages_world import keep
from made_health import made_health, sick_health
from made_plans import made_plan
from pages_world import World

from airflow_snowpack.maintenance.fleet.budget import Budget
from airflow_snowpack.maintenance.fleet.model import EntryState, Pass, PassEntry, PassState
from airflow_snowpack.notifications import Notifications
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.notifications import notification_receivers


def fail(world: World, dotted: str, error: str) -> None:
    """Run a job of the table, which fails."""
    world.clock.move(seconds=1)
    world.run(world.submit(dotted), [], error)
    world.jobs.flush()


def succeed(world: World, dotted: str) -> None:
    """Run a job of the table, which succeeds."""
    world.clock.move(seconds=1)
    world.run(world.submit(dotted), [])
    world.jobs.flush()


def sicken(world: World, dotted: str, owner: str | None = None, **properties: str) -> None:
    """Store the health of a table that needs maintenance."""
    world.clock.move(seconds=1)
    named = properties | ({} if owner is None else {"owner": owner})
    keep(world, dotted, replace(sick_health(), properties=named))


def heal(world: World, dotted: str, owner: str | None = None) -> None:
    """Store the health of a healthy table."""
    world.clock.move(seconds=1)
    keep(world, dotted, made_health(properties={} if owner is None else {"owner": owner}))


def run_pass(world: World, entries: Sequence[PassEntry], budget: Budget, report: Mapping[str, Any] | None = None) -> Pass:
    """Plan a pass with these entries, and end it if there is a report."""
    world.clock.move(seconds=1)
    passes, now = world.installation.fleet_passes, world.clock()
    planning = passes.begin(f"nightly/{now.isoformat()}/plan", "lake", "", budget, workers=1, holder="pod-1")
    planned = passes.plan(planning, entries, [], {"listed": len(entries)})
    if report is not None:
        passes.keep_report(replace(planned, state=PassState.ENDED, ended_at=now), report)
    return planned


def entry(world: World, dotted: str, state: EntryState, *, due: timedelta | None = None, runs: bool = False) -> PassEntry:
    """Return the entry of a table whose deadline was so long ago; ``runs``: it needs maintenance now."""
    table, now = world.table(dotted), world.clock()
    plan = made_plan(table, rewrite_data_files="100 small files") if runs else None
    return PassEntry(table, 0, state, plan=plan, deadline=None if due is None else now - due, ended_at=now)


def refuse(store: Store, receiver: str, problem: str, times: int = 3) -> None:
    """Let a receiver of notifications refuse so many messages in a row."""
    records, clock = Notifications(store), store.clock
    records.receivers([receiver])
    for _ in range(times):
        store.execute(sa.update(notification_receivers).values(next_attempt_at=clock()))
        claim = records.claim(receiver)
        assert claim is not None
        records.failed(receiver, *claim, problem)
