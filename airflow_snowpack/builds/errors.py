"""Errors of declaring, writing, publishing, reading and cleaning up builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from airflow_snowpack.errors import Kind, SnowpackError


class BuildError(SnowpackError, kind=Kind.FAILED):
    """Base class of the errors of builds."""


class InvalidBuild(BuildError, kind=Kind.INVALID):
    """Invalid build declaration."""

    def __init__(self, field: str, value: object, problem: str) -> None:
        self.field = field
        super().__init__(f"{field} = {value!r:.200} is not usable: {problem.rstrip('.')}.")


class InvalidRowKey(BuildError, kind=Kind.INVALID):
    """Invalid key in the rows."""

    def __init__(self, key: object, problem: str) -> None:
        super().__init__(f"The key {key!r:.200} cannot be placed: {problem.rstrip('.')}.")


class ShardCoverageError(BuildError, kind=Kind.DAMAGED):
    """The build is incomplete.

    :ivar missing: shards without a successful attempt.
    :ivar unknown: shard ids of attempts that are outside of the build.
    """

    def __init__(self, run_id: str, num_shards: int, missing: Sequence[int], unknown: Sequence[int]) -> None:
        self.missing = tuple(missing)
        self.unknown = tuple(unknown)
        problems = []
        if missing:
            problems.append(f"no attempt at {_shard_list(missing)} succeeded")
        if unknown:
            problems.append(f"attempts name {_shard_list(unknown)}, outside of 0 to {num_shards - 1}")
        super().__init__(
            f"The run {run_id} of {num_shards} shards cannot be published: {' and '.join(problems)}. Build it again."
        )


def _shard_list(ids: Sequence[int]) -> str:
    shown = ", ".join(str(shard_id) for shard_id in ids[:20])
    more = f" and {len(ids) - 20} more" if len(ids) > 20 else ""
    return f"shard{'s' if len(ids) > 1 else ''} {shown}{more}"


class ShardFailed(BuildError, kind=Kind.FAILED):
    """A shard could not be written."""

    def __init__(self, shard_id: int, attempts: int, cause: object) -> None:
        self.shard_id = shard_id
        super().__init__(f"Shard {shard_id} could not be written in {attempts} attempts. Last error: {cause}")


class TooManyKeys(BuildError, kind=Kind.FAILED):
    """A shard has too many keys."""

    def __init__(self, max_keys: int) -> None:
        super().__init__(
            f"A shard has more than max_keys_per_shard = {max_keys:,} different keys: the input changed after it was counted. "
            "Build it again, from an input that stays the same."
        )


class DatasetNotFound(BuildError, kind=Kind.NOT_FOUND):
    """Dataset not found."""

    def __init__(self, dataset: str) -> None:
        super().__init__(f"There is no dataset {dataset!r}. List the datasets with `airflow snowpack builds list`.")


class BuildNotFound(BuildError, kind=Kind.NOT_FOUND):
    """Build not found."""

    def __init__(self, dataset: str, ref: object, problem: str = "no run, manifest or publication has this name") -> None:
        super().__init__(
            f"{dataset} has no build {ref!r}: {problem}. List its builds with `airflow snowpack builds show {dataset}`."
        )


class DatasetBusy(BuildError, kind=Kind.CONFLICT):
    """The dataset is locked."""

    def __init__(self, dataset: str, holder: str, until: datetime) -> None:
        self.until = until
        super().__init__(
            f"The dataset {dataset} is locked by {holder} until {until.isoformat(timespec='seconds')} or longer, if the lock is "
            "renewed. Try again later."
        )


class StaleBuild(BuildError, kind=Kind.REFUSED):
    """Another attempt has replaced this one."""

    def __init__(self, what: str) -> None:
        super().__init__(f"Another attempt has taken over {what}. This attempt stops and writes nothing more.")


class LockLost(StaleBuild, kind=Kind.CONFLICT):
    """Another process has locked the dataset."""


class BuildLeaseRanOut(StaleBuild, kind=Kind.UNAVAILABLE):
    """The build's lease expired while the store did not answer."""

    def __init__(self, what: str) -> None:
        BuildError.__init__(
            self,
            f"The lease of {what} expired, because the store did not answer for longer than it lasts. This attempt stops and "
            "writes nothing more. No other attempt is known to have taken over. Retry the task.",
        )


class PublishFailed(BuildError, kind=Kind.UNAVAILABLE):
    """The build could not be published."""

    def __init__(self, dataset: str, run_id: str, tries: int, cause: object) -> None:
        super().__init__(f"The run {run_id} was not published: _CURRENT of {dataset} could not be set in {tries} tries: {cause}")


class PointerMoved(PublishFailed, kind=Kind.REFUSED):
    """Another installation has published this dataset."""

    def __init__(self, dataset: str, run_id: str, mine: int, found: int) -> None:
        BuildError.__init__(
            self,
            f"The run {run_id} was not published: _CURRENT of {dataset} is at publication {found}, and this would be {mine}. "
            "Another installation publishes this dataset as well. Let both use the same store, or give each a dataset of its "
            "own, and build again.",
        )


class PointerUnknown(PublishFailed, kind=Kind.UNAVAILABLE):
    """It is unknown whether the build was published."""

    def __init__(self, dataset: str, run_id: str, tries: int, cause: object) -> None:
        BuildError.__init__(
            self,
            f"It is unknown whether the run {run_id} was published: setting _CURRENT of {dataset} failed in {tries} tries, and "
            f"then it could not be read: {cause} The next publication, rollback or cleanup of {dataset} completes it.",
        )


class CleanupIncomplete(BuildError, kind=Kind.FAILED):
    """Some datasets could not be cleaned up."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        each = " ".join(f"{dataset}: {problem}" for dataset, problem in self.problems.items())
        number = f"{len(problems)} dataset{'s' if len(problems) > 1 else ''}"
        super().__init__(f"{number} could not be cleaned up; the others were. {each}")


class NothingPublished(BuildError, kind=Kind.NOT_FOUND):
    """No published build."""

    def __init__(self, url: str) -> None:
        super().__init__(f"There is no published build at {url}: it has no _CURRENT. Publish a build, or correct the URL.")


class ManifestDamaged(BuildError, kind=Kind.DAMAGED):
    """The build's files are damaged."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path} cannot be used: {problem.rstrip('.')}.")


class StorageFailed(BuildError, kind=Kind.UNAVAILABLE):
    """The storage of builds failed."""

    def __init__(self, what: str, where: str, cause: object) -> None:
        super().__init__(f"Could not {what} {where}: {cause}")


class ObjectMissing(StorageFailed, kind=Kind.UNAVAILABLE):
    """The object does not exist in the storage."""

    def __init__(self, where: str) -> None:
        super().__init__("read", where, "there is no such object.")


class ObjectChanged(StorageFailed, kind=Kind.UNAVAILABLE):
    """Another process has replaced the object."""


def raised_elsewhere(name: str, message: str) -> BuildError:
    """Rebuild an error of another process from its class name and message."""
    kind = globals().get(name)
    if not (isinstance(kind, type) and issubclass(kind, BuildError)):
        return BuildError(message)
    # Not by the constructor, which would compose another message.
    return kind.__new__(kind, message)
