"""The options of each action, with the specification's defaults.

    >>> options = parse_options(Action.REWRITE_DATA_FILES, {"min_input_files": 2, "where": "month = 3"})
    >>> options.min_input_files, options.target_file_size_bytes
    (2, 536870912)
    >>> parse_options(Action.REWRITE_DATA_FILES, options.to_json()) == options
    True

The invariant: an options object that came out of :func:`parse_options` can be run. Every number is in Iceberg's range, every
column is a name and nothing else, and only ``where`` and ``location`` are free text, which the code that builds SQL escapes.
Options survive JSON, because the store keeps them with the job. Ages are durations; they become moments when the action runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.durations import format_duration
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.errors import InvalidOption, UnknownAction
from airflow_snowpack.maintenance.readers import (
    branch_name,
    columns,
    duration,
    flag,
    ids,
    one_of,
    ratio,
    sort_order,
    text,
    text_map,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.maintenance.readers import Reader

MIN_SIZE_SHARE = 0.75
MAX_SIZE_SHARE = 1.8
DEFAULT_MAX_AGE = timedelta(days=5)
DEFAULT_RETAIN_LAST = 3
ORPHAN_AGE_FLOOR = timedelta(hours=24)


class Strategy(StrEnum):
    """How ``rewrite_data_files`` lays rows out: as they come, sorted, or along a z-order curve."""

    BINPACK = "binpack"
    SORT = "sort"
    ZORDER = "zorder"


class JobOrder(StrEnum):
    """Which file groups a rewrite works on first."""

    BYTES_ASC = "bytes-asc"
    BYTES_DESC = "bytes-desc"
    FILES_ASC = "files-asc"
    FILES_DESC = "files-desc"
    NONE = "none"


class PrefixMismatch(StrEnum):
    """What becomes of a file whose scheme or authority differs from the one that the metadata has for its path."""

    ERROR = "error"
    IGNORE = "ignore"
    DELETE = "delete"


def read_by(read: Reader, *, procedure_option: str | None = None) -> dict[str, Any]:
    """The metadata of a field: its reader, and its key in the procedure's ``options`` map when it goes there."""
    return {"read": read, "procedure_option": procedure_option}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOptions:
    """What the five have in common.

    :param only_if_needed: skip the action, without Spark, when the table's metadata shows that it has nothing to do; for orphan
        files, a listing of a small table's storage.
    """

    action: ClassVar[Action]

    only_if_needed: bool = field(default=True, metadata=read_by(flag()))

    def to_json(self) -> dict[str, Any]:
        """Plain values that :func:`parse_options` reads back as the same options; what is not set is left out."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: _plain(value) for name, value in values.items() if value is not None and value != ()}

    def procedure_options(self) -> dict[str, str]:
        """The entries for the ``options`` map of Iceberg's procedure."""
        keyed = ((each.metadata["procedure_option"], getattr(self, each.name)) for each in fields(self))
        return {key: str(_plain(value)).lower() for key, value in keyed if key and value is not None}

    def check(self) -> None:
        """Rules between options.

        :raises InvalidOption: two of them do not go together.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteDataFiles(ActionOptions):
    """Compact small files, and files with many deletes, into files near the target size.

    :param target_file_size_bytes: 512 MiB.
    :param min_file_size_bytes: smaller files are rewritten; 0 means 75 % of the target.
    :param max_file_size_bytes: larger files are split; 0 means 180 % of the target.
    :param max_file_group_size_bytes: the most that one unit of work reads; 100 GiB, as Iceberg.
    :param min_input_files: a group with this many files is worth rewriting.
    :param delete_file_threshold: a file with this many delete files is rewritten, whatever its size.
    :param delete_ratio_threshold: a file with this share of its rows deleted is rewritten, whatever its size.
    :param rewrite_all: rewrite every file, needed or not.
    :param partial_progress: commit group by group, so that a conflict costs one group and not all.
    :param partial_progress_max_commits: into how many commits, at most.
    :param max_concurrent_file_group_rewrites: groups that Spark works on at once.
    :param remove_dangling_deletes: also drop delete files that no data file needs any more.
    :param max_files_to_rewrite: stop choosing files after this many; without it, no limit.
    :param rewrite_job_order: which file groups come first; without it, as they are found.
    :param branch: rewrite the files of this branch, and commit to it; without it, ``main``.
    :param sort_order: for ``sort``; without it, the table's own order.
    :param zorder_columns: for ``zorder``.
    :param where: rewrite only files that may hold matching rows; a Spark predicate.
    """

    action: ClassVar[Action] = Action.REWRITE_DATA_FILES

    strategy: Strategy = field(default=Strategy.BINPACK, metadata=read_by(one_of(Strategy)))
    sort_order: str | None = field(default=None, metadata=read_by(sort_order()))
    zorder_columns: tuple[str, ...] = field(default=(), metadata=read_by(columns()))
    where: str | None = field(default=None, metadata=read_by(text()))
    target_file_size_bytes: int = field(
        default=536_870_912, metadata=read_by(whole_number(at_least=1), procedure_option="target-file-size-bytes")
    )
    min_file_size_bytes: int = field(
        default=0, metadata=read_by(whole_number(at_least=0), procedure_option="min-file-size-bytes")
    )
    max_file_size_bytes: int = field(
        default=0, metadata=read_by(whole_number(at_least=0), procedure_option="max-file-size-bytes")
    )
    max_file_group_size_bytes: int = field(
        default=107_374_182_400, metadata=read_by(whole_number(at_least=1), procedure_option="max-file-group-size-bytes")
    )
    min_input_files: int = field(
        default=5, metadata=read_by(whole_number(at_least=1, at_most=2**31 - 1), procedure_option="min-input-files")
    )
    delete_file_threshold: int = field(
        default=2, metadata=read_by(whole_number(at_least=0, at_most=2**31 - 1), procedure_option="delete-file-threshold")
    )
    delete_ratio_threshold: float = field(default=0.1, metadata=read_by(ratio(), procedure_option="delete-ratio-threshold"))
    rewrite_all: bool = field(default=False, metadata=read_by(flag(), procedure_option="rewrite-all"))
    partial_progress: bool = field(default=True, metadata=read_by(flag(), procedure_option="partial-progress.enabled"))
    partial_progress_max_commits: int = field(
        default=10, metadata=read_by(whole_number(at_least=1, at_most=1000), procedure_option="partial-progress.max-commits")
    )
    max_concurrent_file_group_rewrites: int = field(
        default=5, metadata=read_by(whole_number(at_least=1, at_most=1000), procedure_option="max-concurrent-file-group-rewrites")
    )
    remove_dangling_deletes: bool = field(default=False, metadata=read_by(flag(), procedure_option="remove-dangling-deletes"))
    max_files_to_rewrite: int | None = field(
        default=None, metadata=read_by(whole_number(at_least=1, at_most=2**31 - 1), procedure_option="max-files-to-rewrite")
    )
    rewrite_job_order: JobOrder | None = field(
        default=None, metadata=read_by(one_of(JobOrder), procedure_option="rewrite-job-order")
    )
    branch: str | None = field(default=None, metadata=read_by(branch_name()))

    def __post_init__(self) -> None:
        # The bounds follow the target, so that a caller who changes one number gets a consistent set.
        if self.min_file_size_bytes == 0:
            object.__setattr__(self, "min_file_size_bytes", int(self.target_file_size_bytes * MIN_SIZE_SHARE))
        if self.max_file_size_bytes == 0:
            object.__setattr__(self, "max_file_size_bytes", int(self.target_file_size_bytes * MAX_SIZE_SHARE))

    @property
    def sort_order_argument(self) -> str | None:
        """The procedure's ``sort_order``; columns only, nothing to escape."""
        return f"zorder({', '.join(self.zorder_columns)})" if self.strategy is Strategy.ZORDER else self.sort_order

    @property
    def strategy_argument(self) -> str:
        """The procedure's ``strategy``: to Iceberg, a z-order is a sort."""
        return Strategy.BINPACK.value if self.strategy is Strategy.BINPACK else Strategy.SORT.value

    def check(self) -> None:
        target, low, high = self.target_file_size_bytes, self.min_file_size_bytes, self.max_file_size_bytes
        if low >= target:
            raise _refused(self, "min_file_size_bytes", f"must be below the target of {target} bytes, not {low}")
        if high <= target:
            raise _refused(self, "max_file_size_bytes", f"must be above the target of {target} bytes, not {high}")
        if self.sort_order and self.strategy is not Strategy.SORT:
            raise _refused(self, "sort_order", f"needs strategy 'sort', not {self.strategy.value!r}")
        if self.zorder_columns and self.strategy is not Strategy.ZORDER:
            raise _refused(self, "zorder_columns", f"needs strategy 'zorder', not {self.strategy.value!r}")
        if self.strategy is Strategy.ZORDER and not self.zorder_columns:
            raise _refused(self, "zorder_columns", "is needed for strategy 'zorder'")


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePositionDeleteFiles(ActionOptions):
    """Compact position-delete files, and drop from them what no live data file needs.

    :param target_file_size_bytes: without it the table's ``write.delete.target-file-size-bytes``, 64 MiB.
    :param min_input_files: a group with this many files is worth rewriting.
    :param where: only delete files of matching partitions; a Spark predicate.
    :param rewrite_job_order: which file groups come first; without it, as they are found.
    """

    action: ClassVar[Action] = Action.REWRITE_POSITION_DELETE_FILES

    where: str | None = field(default=None, metadata=read_by(text()))
    target_file_size_bytes: int | None = field(
        default=None, metadata=read_by(whole_number(at_least=1), procedure_option="target-file-size-bytes")
    )
    min_input_files: int = field(
        default=5, metadata=read_by(whole_number(at_least=1, at_most=2**31 - 1), procedure_option="min-input-files")
    )
    rewrite_all: bool = field(default=False, metadata=read_by(flag(), procedure_option="rewrite-all"))
    partial_progress: bool = field(default=True, metadata=read_by(flag(), procedure_option="partial-progress.enabled"))
    partial_progress_max_commits: int = field(
        default=10, metadata=read_by(whole_number(at_least=1, at_most=1000), procedure_option="partial-progress.max-commits")
    )
    max_concurrent_file_group_rewrites: int = field(
        default=5, metadata=read_by(whole_number(at_least=1, at_most=1000), procedure_option="max-concurrent-file-group-rewrites")
    )
    rewrite_job_order: JobOrder | None = field(
        default=None, metadata=read_by(one_of(JobOrder), procedure_option="rewrite-job-order")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifests(ActionOptions):
    """Gather the entries of a partition into few manifests.

    :param use_caching: cache the entries in Spark meanwhile; faster for many manifests, needs memory. Iceberg's default is off.
    :param spec_id: manifests of this partition spec; without it, of the current one.
    :param sort_by: partition fields by which the entries are ordered; without it, as the spec has them.
    """

    action: ClassVar[Action] = Action.REWRITE_MANIFESTS

    use_caching: bool | None = field(default=None, metadata=read_by(flag()))
    spec_id: int | None = field(default=None, metadata=read_by(whole_number(at_least=0, at_most=2**31 - 1)))
    sort_by: tuple[str, ...] = field(default=(), metadata=read_by(columns()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSnapshots(ActionOptions):
    """Forget old snapshots and delete the files that only they used. What branches and tags need stays.

    :param max_age: snapshots up to this age stay.
    :param retain_last: this many stay whatever their age.
    :param stream_results: keep the list of deleted files off the driver's memory.
    :param max_concurrent_deletes: threads that delete files; without it, Iceberg's own.
    :param snapshot_ids: expire exactly these, whatever their age, and no others.
    :param clean_expired_metadata: also forget partition specs and schemas that no snapshot uses; off by default.
    """

    action: ClassVar[Action] = Action.EXPIRE_SNAPSHOTS

    max_age: timedelta = field(default=DEFAULT_MAX_AGE, metadata=read_by(duration(at_least=timedelta(0))))
    retain_last: int = field(default=DEFAULT_RETAIN_LAST, metadata=read_by(whole_number(at_least=1, at_most=2**31 - 1)))
    stream_results: bool = field(default=True, metadata=read_by(flag()))
    max_concurrent_deletes: int | None = field(default=None, metadata=read_by(whole_number(at_least=1, at_most=1000)))
    snapshot_ids: tuple[int, ...] = field(default=(), metadata=read_by(ids()))
    clean_expired_metadata: bool | None = field(default=None, metadata=read_by(flag()))

    def check(self) -> None:
        if self.snapshot_ids and (self.max_age, self.retain_last) != (DEFAULT_MAX_AGE, DEFAULT_RETAIN_LAST):
            raise _refused(self, "snapshot_ids", "expires exactly these snapshots: leave max_age and retain_last out")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphanFiles(ActionOptions):
    """Delete files below the table's location that no metadata names.

    :param older_than: only files of at least this age; never below Iceberg's floor of 24 hours, since a writer that has not
        committed yet owns files that look like orphans.
    :param location: a folder inside the table's location; without it, all of that. Free text, to be escaped and checked against
        the table.
    :param prefix_listing: list through the table's own file access instead of Hadoop's; object stores need it. Without a value,
        it is on for whatever is neither a local path nor HDFS.
    :param max_concurrent_deletes: threads that delete files; without it, Iceberg's own.
    :param prefix_mismatch_mode: what becomes of files whose scheme or authority is not the metadata's; an error by default.
    :param equal_schemes: schemes that mean the same, such as ``{"s3a,s3n": "s3"}``; ``equal_authorities`` likewise for hosts.
    """

    action: ClassVar[Action] = Action.REMOVE_ORPHAN_FILES

    older_than: timedelta = field(default=timedelta(days=3), metadata=read_by(duration(at_least=ORPHAN_AGE_FLOOR)))
    location: str | None = field(default=None, metadata=read_by(text()))
    prefix_listing: bool | None = field(default=None, metadata=read_by(flag()))
    max_concurrent_deletes: int | None = field(default=None, metadata=read_by(whole_number(at_least=1, at_most=1000)))
    prefix_mismatch_mode: PrefixMismatch | None = field(default=None, metadata=read_by(one_of(PrefixMismatch)))
    equal_schemes: tuple[tuple[str, str], ...] = field(default=(), metadata=read_by(text_map()))
    equal_authorities: tuple[tuple[str, str], ...] = field(default=(), metadata=read_by(text_map()))


OPTIONS: Mapping[Action, type[ActionOptions]] = {
    each.action: each
    for each in (RewriteDataFiles, RewritePositionDeleteFiles, RewriteManifests, ExpireSnapshots, RemoveOrphanFiles)
}


def parse_options(action: Action, given: Mapping[str, Any]) -> ActionOptions:
    """Parse the options of one action; ``None`` means "not given".

    :raises InvalidOption: an option is not known, or its value cannot be used; the message names both and what is allowed.
    """
    shape = OPTIONS[action]
    known = {each.name: each for each in fields(shape)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise InvalidOption(action.value, str(name), "is not known", tuple(known))
        if value is None:
            continue
        try:
            values[name] = known[name].metadata["read"](value)
        except ValueError as error:
            raise InvalidOption(action.value, name, str(error), tuple(known)) from None
    options = shape(**values)
    options.check()
    return options


def parse_all_options(given: Mapping[str, Mapping[str, Any]]) -> dict[Action, ActionOptions]:
    """Read a mapping of action to options. Actions that it does not name are not in the answer: they run with defaults.

    :raises UnknownAction: a key is not an action.
    :raises InvalidOption: as :func:`parse_options`, or the options of an action are not a mapping.
    """
    parsed: dict[Action, ActionOptions] = {}
    for name, options in given.items():
        if name not in tuple(Action):
            raise UnknownAction(str(name), tuple(Action))
        action = Action(name)
        if not hasattr(options, "items"):
            raise InvalidOption(action.value, "options", f"must be a mapping, not {options!r:.60}", option_names(action))
        parsed[action] = parse_options(action, options)
    return parsed


def option_names(action: Action) -> tuple[str, ...]:
    """The options that an action takes, in the order of their documentation."""
    return tuple(each.name for each in fields(OPTIONS[action]))


def defaults(action: Action) -> dict[str, Any]:
    """Each option of an action with its default as JSON; ``None`` where Iceberg or the table decides."""
    known = {each.name: _plain(each.default) for each in fields(OPTIONS[action])}
    return known | OPTIONS[action]().to_json()


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _refused(options: ActionOptions, name: str, problem: str) -> InvalidOption:
    return InvalidOption(options.action.value, name, problem, option_names(options.action))
