"""Which partitions ``rewrite_data_files`` should rewrite now, within the bytes of one plan.

A partition is sick when Iceberg's own rules would rewrite files of it (:mod:`airflow_snowpack.maintenance.file_groups`), so the
plan never selects files that the procedure would leave alone. Files of older partition specs are one unit to Iceberg, and no
predicate selects them alone: when they are sick, the plan selects the whole table, of which Iceberg leaves the good files alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.humanize import join, number, plural, size
from airflow_snowpack.iceberg.health import PartitionHealth
from airflow_snowpack.maintenance.actions.rewrite_data_files import RewriteDataFiles, size_bounds
from airflow_snowpack.maintenance.planning.commits import commits_of
from airflow_snowpack.maintenance.planning.finding import Finding, current_partitions, of_partitions, written_until
from airflow_snowpack.maintenance.planning.model import Cause, Estimate
from airflow_snowpack.maintenance.planning.where import NotSelectable, where_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_snowpack.iceberg.health import FileCounts
    from airflow_snowpack.maintenance.planning.finding import Case

KINDS = ("small_files", "large_files", "files_with_deletes")
"""What makes a file worth rewriting; the policy has a threshold for each."""
WRITING_WINDOW = timedelta(hours=1)
"""A partition whose newest file is younger is being written to."""
LARGEST_FIRST_EVERY = 4
"""Every fourth plan begins with a partition that is too large for one plan, so that smaller ones cannot hold it up for ever."""


@dataclass(frozen=True, slots=True)
class Share:
    """Files that one plan rewrites.

    :param of: their partition; ``None``: any partition.
    :param files: how many, and ``bytes`` of them; ``outputs``: into how many files they go.
    """

    of: PartitionHealth | None
    files: int
    bytes: int
    outputs: int

    @property
    def gain(self) -> float:
        """Files saved for each byte rewritten."""
        return (self.files - self.outputs) / max(self.bytes, 1)


@dataclass(frozen=True, slots=True)
class Selection:
    """What one plan rewrites of a table, and why not the rest.

    :param where: ``None``: no predicate.
    :param max_files: of the procedure, when a part of what is selected has to do; ``None``: all of it.
    """

    shares: Sequence[Share]
    where: str | None = None
    max_files: int | None = None
    notes: tuple[str, ...] = ()

    def sum(self, name: str) -> int:
        """Add a number up over the shares."""
        return sum(getattr(share, name) for share in self.shares)


def find_data_files(case: Case) -> Finding:
    """Return what ``rewrite_data_files`` would do."""
    health, options = case.health, options_of(case)
    sick = [share for each in current_partitions(health) if (share := share_of(each, options))]
    outdated = share_of(health.outdated, options)
    if outdated is not None:
        note = "files of older partition specs cannot be selected alone, so the whole table is"
        return _found(case, [outdated, *sick], _whole_table([outdated, *sick], case, note))
    if not sick:
        return Finding(_nothing(case), _metrics(case, ()))
    held = _held(sick, case)
    free = [share for share in sick if share not in held]
    if held and not (free and _reaches(case, free)):
        if not _reaches(case, sick):
            return _found(case, sick, _select(sick, (), case))
        ends = [until for share in held if (until := written_until(share.of, case.now, WRITING_WINDOW))]
        evidence = f"{_counts(case, sick)}; {_thresholds(case, _metrics(case, sick))}; writers add files to {_these(held)} now"
        return Finding(evidence, _metrics(case, sick), None, False, Cause.WRITING, reconsider_at=min(ends))
    return _found(case, free, _select(free, held, case))


def options_of(case: Case) -> RewriteDataFiles:
    """Return the policy's options of the action."""
    assert isinstance(case.own.options, RewriteDataFiles)
    return case.own.options


def share_of(counts: FileCounts, options: RewriteDataFiles) -> Share | None:
    """Return what Iceberg would rewrite of a partition; ``None`` when that is nothing.

    :param counts: the partition, or the files of all older partition specs.
    """
    files = counts.small_files + counts.large_files + counts.with_deletes_files
    taken = counts.small_bytes + counts.large_bytes + counts.with_deletes_bytes
    if options.rewrite_all:
        files, taken = counts.data_files, counts.bytes
    if not files:
        return None
    bounds = size_bounds(options)
    several = files > 1 and (files >= options.min_input_files or taken > bounds.target)
    if not (several or taken > bounds.high or counts.with_deletes_files or options.rewrite_all):
        return None
    return Share(counts if isinstance(counts, PartitionHealth) else None, files, taken, bounds.outputs(taken))


def _held(sick: Sequence[Share], case: Case) -> list[Share]:
    """Return the partitions that writers add files to now: a later plan rewrites them, when the writers have gone on to others.

    None of a table without partitions, or with writers in each of them, such as buckets: no later moment is better. None of an
    overdue one.
    """
    health = case.health
    if case.overdue or not health.specs.get(health.spec_id):
        return []
    if len(health.partitions) == health.partition_count and all(_is_written(each, case) for each in health.partitions):
        return []
    return [share for share in sick if _is_written(share.of, case)]


def _is_written(partition: PartitionHealth | None, case: Case) -> bool:
    return written_until(partition, case.now, WRITING_WINDOW) is not None


def _reaches(case: Case, shares: Sequence[Share]) -> bool:
    """Whether the files of these partitions reach a threshold of the policy."""
    numbers = _metrics(case, shares)
    return any(numbers[kind] >= case.threshold(kind) for kind in KINDS)


def _select(free: list[Share], held: Sequence[Share], case: Case) -> Selection:
    """Choose partitions up to the bytes of one plan, those that save most files for each byte first."""
    most, options = case.policy.max_rewrite_bytes, options_of(case)
    ranked = sorted(free, key=lambda share: -share.gain)
    # A rewrite that fails is no outcome, and must not begin each plan from then on.
    if (case.record.runs + case.record.failures) % LARGEST_FIRST_EVERY == LARGEST_FIRST_EVERY - 1:
        ranked.sort(key=lambda share: share.bytes <= most)
    chosen, room = list[Share](), most
    for share in ranked:
        if share.bytes <= room:
            chosen.append(share)
            room -= share.bytes
        elif not chosen:  # larger than a whole plan: it gets a part of it, again and again
            chosen, room = [_part(share, most, options)], 0
    max_files = chosen[0].files if chosen[0].bytes < ranked[0].bytes and len(chosen) == 1 else None
    notes = []
    if max_files is not None or len(chosen) < len(free):
        notes.append(f"one plan rewrites at most {size(most)}")
    if held:
        notes.append(f"writers add files to {_these(held)} now")
    if len(chosen) == case.health.partition_count:
        return Selection(chosen, case.own.where, max_files, tuple(notes))
    try:
        return Selection(chosen, _where(chosen, case), max_files, tuple(notes))
    except NotSelectable as problem:
        return _whole_table([*free, *held], case, f"{problem}, so the whole table is selected")


def _whole_table(shares: Sequence[Share], case: Case, note: str) -> Selection:
    """Select every partition, up to the bytes of one plan."""
    most, options = case.policy.max_rewrite_bytes, options_of(case)
    taken = sum(share.bytes for share in shares)
    if taken <= most:
        return Selection(shares, case.own.where, None, (note,))
    all_of_it = Share(None, sum(share.files for share in shares), taken, 0)
    part = _part(all_of_it, most, options)
    return Selection([part], case.own.where, part.files, (note, f"one plan rewrites at most {size(most)}"))


def _part(share: Share, most: int, options: RewriteDataFiles) -> Share:
    """Return as many of the files as fit into a plan, but enough to be worth a rewrite."""
    files = min(max(share.files * most // share.bytes, options.min_input_files), share.files)
    taken = share.bytes * files // share.files
    return Share(share.of, files, taken, size_bounds(options).outputs(taken))


def _where(chosen: Sequence[Share], case: Case) -> str:
    health, own = case.health, case.own.where
    values = [share.of.values for share in chosen if share.of is not None]
    generated = where_of(health.specs[health.spec_id], values, catalog=case.policy.table.catalog)
    return f"({own}) AND ({generated})" if own else generated


def _found(case: Case, judged: Sequence[Share], selection: Selection) -> Finding:
    """:param judged: the partitions whose files are compared with the thresholds; the selection may be a part of them."""
    whole = any(share.of is None for share in selection.shares)
    numbers = _metrics(case, judged)
    options: dict[str, Any] = {"where": selection.where} if selection.where else {}
    if selection.max_files is not None:
        options["max_files_to_rewrite"] = selection.max_files
    progress = options_of(case)
    return Finding(
        "; ".join((_counts(case, judged), _thresholds(case, numbers), *selection.notes)),
        numbers,
        Estimate(selection.sum("files"), selection.sum("outputs"), selection.sum("bytes")),
        _reaches(case, judged),
        options=options,
        partitions=None if whole else tuple(share.of for share in selection.shares if share.of is not None),
        commits=commits_of(
            len(selection.shares), partial_progress=progress.partial_progress, at_most=progress.partial_progress_max_commits
        ),
    )


def _metrics(case: Case, shares: Sequence[Share]) -> dict[str, int | float]:
    """The numbers of the sick partitions, beside those of the table."""
    health = case.health
    counts = [health.outdated if share.of is None else share.of for share in shares]
    return {
        "data_files": health.data_files,
        "small_files": sum(each.small_files for each in counts),
        "large_files": sum(each.large_files for each in counts),
        "files_with_deletes": sum(each.with_deletes_files for each in counts),
        "sick_partitions": len(counts),
        "partitions": health.partition_count,
    }


def _counts(case: Case, shares: Sequence[Share]) -> str:
    numbers, bounds = _metrics(case, shares), case.health.bounds
    low, high = size(bounds.min_file_size_bytes), size(bounds.max_file_size_bytes)
    named = zip(KINDS, (f"below {low}", f"above {high}", "with many deletes"), strict=True)
    counts = [(numbers[kind], name) for kind, name in named if numbers[kind]]
    first, *others = counts or [(0, "too small, too large or with many deletes; rewrite_all takes all of them")]
    text = f"{number(first[0])} of {plural(case.health.data_files, 'file')} {first[1]}"
    return text + "".join(f", {number(count)} {kind}" for count, kind in others) + of_partitions(len(shares), case.health)


def _thresholds(case: Case, numbers: Mapping[str, int | float]) -> str:
    shown = [number(case.threshold(kind)) for kind in [kind for kind in KINDS if numbers[kind]] or KINDS]
    return f"threshold{'s' if len(shown) > 1 else ''} {join(shown)}"


def _nothing(case: Case) -> str:
    health = case.health
    if not (health.small_files or health.large_files):
        return f"{plural(health.data_files, 'file')}, none of them too small, too large or with many deletes"
    return f"{number(health.small_files)} of {plural(health.data_files, 'file')} too small, and no partition has enough of them"


def _these(shares: Sequence[Share]) -> str:
    return plural(len(shares), "partition")
