"""The interim tables page by page, the newest first.

    page = page_of(registry, dag_id="flights", limit=50)
    page_of(registry, dag_id="flights", limit=50, after=page.next)

The invariant: tables that come and go meanwhile make none appear twice, and none that stays be missed.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_snowpack.interim.errors import InvalidInterimCursor
from airflow_snowpack.interim.model import InterimTable, TableState
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.store import storable

LONGEST_CURSOR = 400


@dataclass(frozen=True, slots=True)
class InterimPage:
    """A page.

    :param next: the cursor of the page after this one; ``None`` when this is the last.
    """

    tables: tuple[InterimTable, ...]
    next: str | None


def page_of(
    registry: InterimRegistry,
    *,
    dag_id: str | None = None,
    run_id: str | None = None,
    state: TableState | None = None,
    limit: int = 100,
    after: str | None = None,
) -> InterimPage:
    """One page.

    :param after: the ``next`` of the page before.
    :raises InvalidInterimCursor: it is not one that a page had.
    """
    place = None if after is None else _place_of(after)
    found = registry.tables(dag_id=dag_id, run_id=run_id, state=state, limit=limit + 1, before=place)
    shown = tuple(found[:limit])
    return InterimPage(shown, _cursor_of(shown[-1]) if shown and len(found) > limit else None)


def _cursor_of(table: InterimTable) -> str:
    place = json.dumps([table.created_at.isoformat(), table.table_id]).encode()
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def _place_of(cursor: str) -> tuple[datetime, str]:
    if len(cursor) > LONGEST_CURSOR:
        raise InvalidInterimCursor(cursor)
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        created_at, table_id = place
        moment = datetime.fromisoformat(created_at).astimezone(UTC)
        known = [moment.isoformat(), storable(table_id)] == place
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidInterimCursor(cursor) from error
    if not known:
        raise InvalidInterimCursor(cursor)
    return moment, table_id
