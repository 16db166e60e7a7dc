"""What can go wrong with a build.

BuildError
├── InvalidBuild        a declaration that cannot be used, with the field that is to blame
├── InvalidKey          a key that has no canonical bytes, or that belongs to no shard
├── ShardCoverageError  shards without a successful attempt, or attempts at shards that do not exist
├── TooManyKeys         a shard with more keys than the build allows, as its input changed after it was counted
├── ShardFailed         a shard that could not be written within its attempts
├── DatasetNotFound     nothing was ever built under this name
├── BuildNotFound       the dataset has no such run, manifest or publication
├── DatasetBusy         somebody else publishes, rolls back or cleans up this dataset
├── StaleBuild          the fence has moved: another attempt has this run now
│   ├── LockLost        another process holds the lock of this dataset; the run is unchanged
│   └── BuildLeaseRanOut  the store was away for longer than the lease; no other attempt has taken over
├── PublishFailed       the pointer could not be set; it is what it was
│   ├── PointerMoved    another installation published this dataset meanwhile
│   └── PointerUnknown  nor could it be read afterwards, so nobody knows
├── CleanupIncomplete   of several datasets, some could not be cleaned up
├── NothingPublished    a reader that finds no pointer
├── ManifestDamaged     a manifest, pointer or shard that is not what was written
└── StorageFailed       the object storage did not do what it was asked to
    ├── ObjectMissing   there is no such object
    └── ObjectChanged   another process replaced the object after it was read
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from airflow_snowpack.errors import SnowpackError


class BuildError(SnowpackError):
    """The root of the room's errors."""


class InvalidBuild(BuildError):
    """A declaration that cannot be used.

    :ivar field: the parameter that is to blame.
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        self.field = field
        super().__init__(f"{field} = {value!r:.200} is not usable: {problem.rstrip('.')}.")


class InvalidKey(BuildError):
    """A key that has no canonical bytes, or that belongs to no shard."""

    def __init__(self, key: object, problem: str) -> None:
        super().__init__(f"The key {key!r:.200} cannot be placed: {problem.rstrip('.')}.")


class ShardCoverageError(BuildError):
    """The attempts do not cover exactly the shards of the build.

    :ivar missing: shards without a successful attempt.
    :ivar unknown: shard ids of attempts that are outside of the build.
    """

    def __init__(self, run_id: str, num_shards: int, missing: Sequence[int], unknown: Sequence[int]) -> None:
        self.missing = tuple(missing)
        self.unknown = tuple(unknown)
        told = []
        if missing:
            told.append(f"no attempt at {_few(missing)} succeeded")
        if unknown:
            told.append(f"attempts name {_few(unknown)}, outside of 0 to {num_shards - 1}")
        super().__init__(f"The run {run_id} of {num_shards} shards cannot be published: {' and '.join(told)}. Build it again.")


def _few(ids: Sequence[int]) -> str:
    shown = ", ".join(str(shard_id) for shard_id in ids[:20])
    more = f" and {len(ids) - 20} more" if len(ids) > 20 else ""
    return f"shard{'s' if len(ids) > 1 else ''} {shown}{more}"


class ShardFailed(BuildError):
    """A shard could not be written within its attempts."""

    def __init__(self, shard_id: int, attempts: int, cause: object) -> None:
        self.shard_id = shard_id
        super().__init__(f"Shard {shard_id} could not be written in {attempts} attempts; the last one ended with: {cause}")


class TooManyKeys(BuildError):
    """A shard gets more different keys than the build allows: the input is not the one that was counted."""

    def __init__(self, max_keys: int) -> None:
        super().__init__(
            f"A shard has more than max_keys_per_shard = {max_keys:,} different keys: the input changed after it was counted. "
            "Build it again, from an input that stays the same."
        )


class DatasetNotFound(BuildError):
    """Nothing was ever built under this name."""

    def __init__(self, dataset: str) -> None:
        super().__init__(f"There is no dataset {dataset!r}. `airflow snowpack builds list` shows those that were built.")


class BuildNotFound(BuildError):
    """The dataset has no such run, manifest or publication, or it was cleaned up."""

    def __init__(self, dataset: str, asked: object, problem: str = "no run, manifest or publication has this name") -> None:
        super().__init__(
            f"{dataset} has no build {asked!r}: {problem}. `airflow snowpack builds show {dataset}` lists those there are."
        )


class DatasetBusy(BuildError):
    """Somebody else publishes, rolls back or cleans up this dataset."""

    def __init__(self, dataset: str, holder: str, until: datetime) -> None:
        self.until = until
        super().__init__(
            f"The dataset {dataset} is held by {holder} until {until.isoformat(timespec='seconds')}, "
            "or for as long as that renews it. Try again later."
        )


class StaleBuild(BuildError):
    """The fence has moved: another attempt has this run or this dataset now, so nothing more may be written."""

    def __init__(self, held: str) -> None:
        super().__init__(f"Another attempt has taken over {held}; this one stops without writing anything more.")


class LockLost(StaleBuild):
    """The dataset's lock has gone to somebody else. The run is still its holder's, who may try again."""


class BuildLeaseRanOut(StaleBuild):
    """The store did not answer until the lease had run out. The run is still its holder's, who may try again."""

    def __init__(self, held: str) -> None:
        BuildError.__init__(
            self,
            f"The lease of {held} ran out, because the store did not answer for longer than it lasts. This attempt stops without "
            "writing anything more. No other attempt is known to have taken over: retry the task.",
        )


class PublishFailed(BuildError):
    """The pointer could not be set; it is what it was."""

    def __init__(self, dataset: str, run_id: str, tries: int, cause: object) -> None:
        super().__init__(f"The run {run_id} was not published: _CURRENT of {dataset} could not be set in {tries} tries: {cause}")


class PointerMoved(PublishFailed):
    """Another installation has moved the pointer; it is not replaced."""

    def __init__(self, dataset: str, run_id: str, mine: int, found: int) -> None:
        BuildError.__init__(
            self,
            f"The run {run_id} was not published: _CURRENT of {dataset} is at publication {found}, and this would be {mine}. "
            "Another installation publishes this dataset as well. Give both the same store, or each a dataset of its own, and "
            "build again.",
        )


class PointerUnknown(PublishFailed):
    """The pointer could not be set, nor read afterwards, so that nobody knows which one readers see."""

    def __init__(self, dataset: str, run_id: str, tries: int, cause: object) -> None:
        BuildError.__init__(
            self,
            f"Whether the run {run_id} was published is not known: setting _CURRENT of {dataset} failed in {tries} tries, and "
            f"then it could not be read: {cause} The next publication or cleanup of {dataset} finds out and finishes it.",
        )


class CleanupIncomplete(BuildError):
    """Of several datasets, some could not be cleaned up; the others were.

    :param problems: what was in the way, by the dataset.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        told = " ".join(f"{dataset}: {problem}" for dataset, problem in self.problems.items())
        number = f"{len(problems)} dataset{'s' if len(problems) > 1 else ''}"
        super().__init__(f"{number} could not be cleaned up, while all others were. {told}")


class NothingPublished(BuildError):
    """A reader found no pointer."""

    def __init__(self, url: str) -> None:
        super().__init__(f"There is no published build at {url}: it has no _CURRENT. Publish one, or correct the address.")


class ManifestDamaged(BuildError):
    """A manifest, pointer or shard is not what was written."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path} cannot be used: {problem.rstrip('.')}.")


class StorageFailed(BuildError):
    """The object storage did not do what it was asked to."""

    def __init__(self, what: str, where: str, cause: object) -> None:
        super().__init__(f"Could not {what} {where}: {cause}")


class ObjectMissing(StorageFailed):
    """There is no such object."""

    def __init__(self, where: str) -> None:
        super().__init__("read", where, "there is no such object.")


class ObjectChanged(StorageFailed):
    """Another process replaced the object after it was read."""


def raised_elsewhere(name: str, message: str) -> BuildError:
    """The error that another process has raised, by the name of its class; it carries the message and nothing else."""
    kind = globals().get(name)
    if not (isinstance(kind, type) and issubclass(kind, BuildError)):
        return BuildError(message)
    # Past the constructor, which would compose the message anew.
    return kind.__new__(kind, message)
