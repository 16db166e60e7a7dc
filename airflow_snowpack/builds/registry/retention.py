"""Which records of builds may be deleted when they are old.

    Pruner(store, KINDS, older_than=timedelta(days=180))

The invariant: a run stays on record until cleanup has deleted its files and has nothing left to look at, and as long as it is the
one that readers see. A move of the pointer stays until it is done and a later one is current.
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.retention import Kind
from airflow_snowpack.store.tables.builds import build_datasets, build_publications, build_runs

run, move, dataset = build_runs.c, build_publications.c, build_datasets.c
current_run = sa.select(dataset.current_run).where(dataset.dataset == run.dataset).scalar_subquery()
current_move = sa.select(dataset.publication).where(dataset.dataset == move.dataset).scalar_subquery()
# Not EXISTS: Postgres would make a join of it, over the open moves of all datasets.
open_move = (
    sa.select(move.number)
    .where(move.dataset == run.dataset, move.run_id == run.run_id, move.done_at.is_(None))
    .limit(1)
    .scalar_subquery()
)

KINDS = (
    Kind(
        build_publications,
        age=move.done_at,
        order=(move.done_at, move.dataset, move.number),
        which=move.done_at.is_not(None),
        unneeded=move.number < current_move,
    ),
    Kind(
        build_runs,
        age=run.deleted_at,
        order=(run.deleted_at, run.build_id),
        which=run.deleted_at.is_not(None),
        unneeded=sa.and_(
            run.status != sa.literal_column("'running'"),
            run.cleanup_at.is_(None),
            run.run_id.is_distinct_from(current_run),
            open_move.is_(None),
        ),
    ),
)
