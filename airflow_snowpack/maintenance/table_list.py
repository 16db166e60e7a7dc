"""List a catalog's tables with their scores and next steps, for the page, the REST API and the command line.

    found = list_tables(jobs, inventory, order=Order.NEED, show=Show.FAILED, limit=50)
    found.items[0].explained.next_step, found.items[0].scored.score
    list_tables(jobs, inventory, order=Order.NEED, show=Show.FAILED, after=found.next)

The list comes from the store alone, in a number of statements that does not depend on the number of tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from airflow_snowpack.inventory import Inventory, TableScore, TableScores
from airflow_snowpack.jobs import Jobs, JobStatus, TableExplanation, explain_tables
from airflow_snowpack.store.paging import Found, search_pages

MAX_SEARCHED = 500
"""After this many tables a call returns, even if its page has fewer than its limit and more tables match."""
BATCH_SIZE = 100


class Order(StrEnum):
    NEED = "need"
    NAME = "name"


class Show(StrEnum):
    """A filter by the last job of a table: ``FAILED``, ``NEVER`` without one, ``RUNNING`` while it waits or runs."""

    FAILED = "failed"
    NEVER = "never"
    RUNNING = "running"

    def fits(self, explained: TableExplanation) -> bool:
        last = explained.last
        match self:
            case Show.FAILED:
                return last is not None and last.status is JobStatus.FAILED
            case Show.NEVER:
                return last is None
            case Show.RUNNING:
                return last is not None and not last.status.is_terminal


@dataclass(frozen=True, slots=True)
class ListedTable:
    explained: TableExplanation
    scored: TableScore


def list_tables(
    jobs: Jobs,
    inventory: Inventory,
    *,
    database: str | None = None,
    search: str | None = None,
    show: Show | None = None,
    order: Order = Order.NEED,
    after: str | None = None,
    limit: int = 100,
) -> Found[ListedTable, str]:
    """Return a page of tables.

    :param search: part of ``database.table``, case-insensitive.
    :param show: ``None`` for all.
    :param after: ``next`` of the page before; by name, also any ``database.table``.
    :raises InvalidCursor: no page by need returned ``after``.
    """
    scores, by_name = TableScores(jobs.store, inventory), order is Order.NAME

    def read(after: str | None, limit: int) -> list[ListedTable]:
        found = scores.page(database=database, search=search, by_name=by_name, after=after, limit=limit).items
        first_steps = {each.table: each.condition.first_step for each in found}
        explained = explain_tables(jobs, [each.table for each in found], first_steps)
        return [ListedTable(explained[each.table], each) for each in found]

    return search_pages(
        read,
        lambda row: row.scored.place(by_name=by_name),
        lambda row: show is None or show.fits(row.explained),
        after=after,
        limit=limit,
        batch=limit if show is None else max(limit, BATCH_SIZE),
        at_most=MAX_SEARCHED,
    )
