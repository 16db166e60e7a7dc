"""The records of builds that retention may delete when they are old.

    Pruner(store, KINDS, older_than=timedelta(days=180))

A run stays recorded until cleanup has deleted its files and need not examine it again, and while it is the current one. A
publication stays until it is confirmed and a later one is current.
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.retention import Kind
from airflow_snowpack.store.tables.builds import build_datasets, build_publications, build_runs

run, entry, dataset = build_runs.c, build_publications.c, build_datasets.c
current_run = sa.select(dataset.current_run).where(dataset.dataset == run.dataset).scalar_subquery()
current_publication = sa.select(dataset.publication).where(dataset.dataset == entry.dataset).scalar_subquery()
# Not EXISTS: Postgres would turn it into a join over the unconfirmed publications of all datasets.
unconfirmed = (
    sa.select(entry.number)
    .where(entry.dataset == run.dataset, entry.run_id == run.run_id, entry.done_at.is_(None))
    .limit(1)
    .scalar_subquery()
)

KINDS = (
    Kind(
        build_publications,
        age=entry.done_at,
        order=(entry.done_at, entry.dataset, entry.number),
        which=entry.done_at.is_not(None),
        unneeded=entry.number < current_publication,
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
            unconfirmed.is_(None),
        ),
    ),
)
