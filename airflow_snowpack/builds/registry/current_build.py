"""The current build of a dataset, and whether it meets a sensor's condition.

    wanted = WantedBuild("features", as_of=midnight)
    current = current_build(store, "features")
    wanted.is_met(current) or print(wanted.unmet(current))

Only the build that the pointer names is current, never a build that was published into history behind a newer one. That newer
build meets the condition, too; an older build after a rollback does not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.layout import check_dataset
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.tables.builds import build_datasets, build_runs


@dataclass(frozen=True, slots=True)
class CurrentBuild:
    """The build that a dataset's readers get; ``publication`` is the pointer's number, ``rows`` is ``None`` if unknown."""

    dataset: str
    run_id: str
    publication: int
    as_of: datetime
    rows: int | None


@dataclass(frozen=True, slots=True)
class WantedBuild:
    """A condition for the current build; without bounds, any publication meets it.

    :param as_of: data of this time or later.
    :param newer_than: a publication with a greater number.
    :raises InvalidBuild: the dataset's name is invalid, or the time has no time zone.
    """

    dataset: str
    as_of: datetime | None = None
    newer_than: int | None = None

    def __post_init__(self) -> None:
        check_dataset(self.dataset)
        if self.as_of is not None and self.as_of.tzinfo is None:
            raise InvalidBuild("as_of", self.as_of.isoformat(), "it must have a time zone")

    def is_met(self, current: CurrentBuild | None) -> bool:
        if current is None or (self.as_of is not None and current.as_of < self.as_of):
            return False
        return self.newer_than is None or current.publication > self.newer_than

    def unmet(self, current: CurrentBuild | None) -> str:
        """Return what is missing, as a sentence."""
        if current is None:
            return f"No build of {self.dataset} is published yet."
        bounds = [f"data as of {self.as_of.isoformat()} or later"] if self.as_of is not None else []
        bounds += [f"a publication after number {self.newer_than}"] if self.newer_than is not None else []
        return (
            f"The current build of {self.dataset} is the run {current.run_id}, as of {current.as_of.isoformat()}, publication "
            f"number {current.publication}. Waiting for {' in '.join(bounds)}."
        )


def current_build(store: Store, dataset: str) -> CurrentBuild | None:
    """Return the current build in the registry; ``None`` if the dataset has no publication."""
    return current_builds(store, [dataset])[dataset]


def current_builds(store: Store, datasets: Collection[str]) -> dict[str, CurrentBuild | None]:
    """Return the current builds of several datasets, in one statement."""
    run_key = build_datasets.c.dataset + "/" + build_datasets.c.current_run  # like ``build_id``
    columns = (build_datasets.c.dataset, build_datasets.c.publication, build_runs.c.run_id, build_runs.c.as_of, build_runs.c.rows)
    query = sa.select(*columns).join(build_runs, build_runs.c.build_id == run_key)
    query = query.where(build_datasets.c.publication.is_not(None))
    named, current = {storable(dataset): dataset for dataset in datasets}, dict[str, CurrentBuild | None].fromkeys(datasets)
    for row in store.all_by_key(query, build_datasets.c.dataset, datasets):
        current[named[row.dataset]] = CurrentBuild(row.dataset, row.run_id, row.publication, row.as_of, row.rows)
    return current
