"""The tables of a catalog, each with its score and its next step: the list of the page, the REST API and the command line.

    found = list_tables(jobs, inventory, order=Order.NEED, show=Show.FAILED, limit=50)
    found.items[0].explained.next_step, found.items[0].scored.score
    list_tables(jobs, inventory, order=Order.NEED, show=Show.FAILED, after=found.next)

It is made from the store alone, by a number of statements that does not depend on the number of tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from airflow_snowpack.inventory import TableScores
from airflow_snowpack.jobs import JobStatus, explain_tables
from airflow_snowpack.store.paging import Found, search_pages

if TYPE_CHECKING:
    from airflow_snowpack.inventory import Inventory, TableScore
    from airflow_snowpack.jobs import Jobs, TableExplanation

MAX_SEARCHED = 500
"""After so many tables a call ends, and its page may have fewer than its limit while there are more."""
BATCH_SIZE = 100


class Order(StrEnum):
    """The order of the list."""

    NEED = "need"
    NAME = "name"


class Show(StrEnum):
    """Only some tables, by their last job: ``FAILED``, ``NEVER`` without one, ``RUNNING`` while it waits or runs."""

    FAILED = "failed"
    NEVER = "never"
    RUNNING = "running"

    def fits(self, explained: TableExplanation) -> bool:
        """Return whether a table is one of them."""
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
    """A table in the list."""

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
    """Return a page of the listed tables.

    :param search: part of ``database.table``, upper and lower case alike.
    :param show: only those; ``None`` for all.
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
