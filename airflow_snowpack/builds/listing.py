"""Looks at the registry: datasets, runs and publications, page by page.

    listing = BuildListing(store)
    page = listing.runs("flights", limit=50)
    more = listing.runs("flights", limit=50, before=(page[-1].as_of, page[-1].sequence))

Each page costs the same, however many there are before it: it goes on from the last row's place in an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.builds.errors import BuildNotFound, DatasetNotFound
from airflow_snowpack.builds.model import BuildRun, RunStatus
from airflow_snowpack.builds.registered import BuildDataset, Publication
from airflow_snowpack.builds.rows import build_id, dataset_from, publication_from, run_from
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.build_tables import build_datasets, build_publications, build_runs
from airflow_snowpack.store.types import UtcDateTime

PAGE = 100

Place = tuple[datetime, int]
"""Where a run stands in the order of its dataset's runs: its ``as_of`` and ``sequence``."""


class BuildListing:
    """Reads, and never writes."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def datasets(self, *, limit: int = PAGE, after: str | None = None) -> list[BuildDataset]:
        """The datasets by name.

        :param after: the last name of the page before.
        """
        query = sa.select(build_datasets).order_by(build_datasets.c.dataset).limit(limit)
        query = query if after is None else query.where(build_datasets.c.dataset > storable(after))
        return [dataset_from(row) for row in self._all(query)]

    def dataset(self, dataset: str) -> BuildDataset:
        """:raises DatasetNotFound: nothing was ever built under this name."""
        found = self._all(sa.select(build_datasets).where(build_datasets.c.dataset == storable(dataset)))
        if not found:
            raise DatasetNotFound(dataset)
        return dataset_from(found[0])

    def runs(
        self, dataset: str, *, limit: int = PAGE, before: Place | None = None, status: RunStatus | None = None
    ) -> list[BuildRun]:
        """The runs of a dataset, the newest data first; none for a dataset that does not exist.

        :param before: the place of the last run of the page before.
        """
        run = build_runs.c
        query = sa.select(build_runs).where(run.dataset == storable(dataset))
        if before is not None:
            place = sa.tuple_(sa.literal(before[0], UtcDateTime), sa.literal(before[1], sa.Integer))
            query = query.where(sa.tuple_(run.as_of, run.sequence) < place)
        query = query if status is None else query.where(run.status == status.value)
        return [run_from(row) for row in self._all(query.order_by(run.as_of.desc(), run.sequence.desc()).limit(limit))]

    def run(self, dataset: str, run_id: str) -> BuildRun:
        """:raises BuildNotFound: the dataset has no such run."""
        found = self.find_run(dataset, run_id)
        if found is None:
            raise BuildNotFound(dataset, run_id)
        return found

    def find_run(self, dataset: str, run_id: str) -> BuildRun | None:
        """The run, if there is one of this id."""
        found = self._all(sa.select(build_runs).where(build_runs.c.build_id == storable(build_id(dataset, run_id))))
        return run_from(found[0]) if found else None

    def publications(self, dataset: str, *, limit: int = PAGE, before: int | None = None) -> list[Publication]:
        """The moves of a dataset's pointer, the latest first.

        :param before: the number of the last publication of the page before.
        """
        row = build_publications.c
        query = sa.select(build_publications).where(row.dataset == storable(dataset), row.done_at.is_not(None))
        query = query if before is None else query.where(row.number < before)
        return [publication_from(found) for found in self._all(query.order_by(row.number.desc()).limit(limit))]

    def _all(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        return self.store.read(lambda conn: conn.execute(query).all())
