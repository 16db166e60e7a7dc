"""What is served now, and whether that is what somebody waits for.

    awaited = Awaited("features", as_of=midnight)
    served = served_build(store, "features")
    awaited.is_met(served) or print(awaited.unmet(served))

The invariant: only what the pointer stands on counts. A build that went into history behind a newer one is served to nobody, and
the newer one is as good for whoever waits; after a rollback it is not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.layout import check_dataset
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.build_tables import build_datasets, build_runs
from airflow_snowpack.store.by_keys import read_by_keys


@dataclass(frozen=True, slots=True)
class ServedBuild:
    """The build that readers of a dataset are given.

    :param publication: the number of the pointer.
    :param rows: ``None`` where the registry does not know.
    """

    dataset: str
    run_id: str
    publication: int
    as_of: datetime
    rows: int | None


@dataclass(frozen=True, slots=True)
class Awaited:
    """What somebody waits for. With neither bound, for the first publication.

    :param as_of: data of this moment or later.
    :param newer_than: a publication of a greater number than this.
    :raises InvalidBuild: the name is none, or the moment has no time zone.
    """

    dataset: str
    as_of: datetime | None = None
    newer_than: int | None = None

    def __post_init__(self) -> None:
        check_dataset(self.dataset)
        if self.as_of is not None and self.as_of.tzinfo is None:
            raise InvalidBuild("as_of", self.as_of.isoformat(), "it must have a time zone")

    def is_met(self, served: ServedBuild | None) -> bool:
        """Whether the wait is over."""
        if served is None:
            return False
        recent = self.as_of is None or served.as_of >= self.as_of
        return recent and (self.newer_than is None or served.publication > self.newer_than)

    def unmet(self, served: ServedBuild | None) -> str:
        """What is missing, as a sentence."""
        if served is None:
            return f"Nothing of {self.dataset} is published yet."
        bounds = [f"data as of {self.as_of.isoformat()} or later"] if self.as_of is not None else []
        bounds += [f"a publication after number {self.newer_than}"] if self.newer_than is not None else []
        return (
            f"{self.dataset} serves the run {served.run_id}, as of {served.as_of.isoformat()}, as publication number "
            f"{served.publication}; awaited is {' in '.join(bounds)}."
        )


def served_build(store: Store, dataset: str) -> ServedBuild | None:
    """What the registry knows to be served; ``None`` when nothing is, or nothing was ever built under this name."""
    return served_builds(store, [dataset])[dataset]


def served_builds(store: Store, datasets: Collection[str]) -> dict[str, ServedBuild | None]:
    """As :func:`served_build`, for several datasets in one statement."""
    run_key = build_datasets.c.dataset + "/" + build_datasets.c.current_run  # as ``rows.build_id`` makes it
    columns = (build_datasets.c.dataset, build_datasets.c.publication, build_runs.c.run_id, build_runs.c.as_of, build_runs.c.rows)
    query = sa.select(*columns).join(build_runs, build_runs.c.build_id == run_key)
    query = query.where(build_datasets.c.publication.is_not(None))
    named, served = {storable(dataset): dataset for dataset in datasets}, dict[str, ServedBuild | None].fromkeys(datasets)
    for row in read_by_keys(store, query, build_datasets.c.dataset, datasets):
        served[named[row.dataset]] = ServedBuild(row.dataset, row.run_id, row.publication, row.as_of, row.rows)
    return served
