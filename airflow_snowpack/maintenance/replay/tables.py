"""Replay tables of a catalog with one policy or several side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.humanize import sentence
from airflow_snowpack.iceberg import load_table
from airflow_snowpack.iceberg.catalog import unreadable_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable, TableUnreadable
from airflow_snowpack.iceberg.health import read_health
from airflow_snowpack.iceberg.table_properties import owner_properties
from airflow_snowpack.maintenance.replay.history import read_history
from airflow_snowpack.maintenance.replay.model import Replay, TableReplay
from airflow_snowpack.maintenance.replay.simulation import passes, recorded, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from pyiceberg.catalog import Catalog

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.maintenance.policies import Policies


def replay_tables(
    catalog: Catalog,
    tables: Sequence[TableName],
    policies: Mapping[str, Policies],
    *,
    since: datetime,
    until: datetime,
    every: timedelta,
    progress: Callable[[int, str], None] = lambda _done, _table: None,
) -> Replay:
    """Replay tables one after the other; those that cannot be replayed become problems of the result.

    :param policies: by label.
    :param until: the time of the last pass.
    :param every: the time between passes over the fleet.
    :param progress: called after each table with the number done and the table's name.
    :raises CatalogUnreachable: the catalog does not answer.
    """
    found, problems, times = list[TableReplay](), dict[str, str](), passes(since, until, every)
    for done, name in enumerate(tables, start=1):
        try:
            found.append(_replay(catalog, name, policies, since, times))
        except CatalogUnreachable:
            raise
        except SnowpackError as problem:
            problems[name.dotted] = sentence(str(problem))
        except Exception as problem:  # noqa: BLE001 - metadata may contain anything; the other tables are replayed
            problems[name.dotted] = f"It cannot be simulated: {type(problem).__name__}: {problem}."
        progress(done, name.dotted)
    return Replay(since, until, len(times), tuple(found), problems)


def _replay(
    catalog: Catalog, name: TableName, policies: Mapping[str, Policies], since: datetime, times: Sequence[datetime]
) -> TableReplay:
    table, until = load_table(catalog, name), times[-1]
    try:
        history = read_history(table, since)
    except unreadable_errors() as error:
        raise TableUnreadable(name.dotted, error) from error
    merged = {label: each.of(name, owner_properties(table)) for label, each in policies.items()}
    health = read_health(table, now=until)
    return TableReplay(
        name.dotted,
        history.begin,
        until,
        sum(not commit.is_maintenance for commit in history.commits),
        recorded(history, until, maintained=True),
        recorded(history, until, maintained=False),
        tuple(simulate(history, policy, times, label=label, health=health) for label, policy in merged.items()),
        history.abandoned,
    )
