"""What an action changed, as small charts of before and after.

    figures(result)[0].title, figures(result)[0].change      # 'Data files', and by how many percent they became fewer

The numbers are the action's metrics, in the procedures' own names; an action that counted nothing has no chart.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_snowpack.humanize import number, percent, size
from airflow_snowpack.jobs import ActionResult

FULL = 1000
"""The length of the longest bar, in units of its drawing."""
LEAST = 6
"""What is not zero can be seen."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One number.

    :param length: of :data:`FULL`.
    :param tone: ``before``, ``after`` or ``gone``.
    """

    label: str
    text: str
    length: int
    tone: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A few numbers that belong together.

    :param change: how much less or more, when that is a question.
    """

    title: str
    bars: tuple[Bar, ...]
    change: str | None = None


# What a rewrite counts as ``rewritten_…_count`` before and as ``added_…_count`` after.
REWRITTEN = {"data_files": "Data files", "delete_files": "Delete files", "manifests": "Manifests", "bytes": "Size"}
DELETED = {
    "deleted_data_files_count": "data files",
    "deleted_position_delete_files_count": "position deletes",
    "deleted_equality_delete_files_count": "equality deletes",
    "deleted_manifest_files_count": "manifests",
    "deleted_manifest_lists_count": "manifest lists",
    "deleted_statistics_files_count": "statistics",
}


def figures(result: ActionResult, *, dry_run: bool = False) -> list[Figure]:
    """Return the charts of one action, or of what a dry run of it would change."""
    return list(_figures(result.metrics, dry_run))


def _figures(metrics: Mapping[str, int | float], dry_run: bool) -> Iterator[Figure]:
    words = ("now", "then") if dry_run else ("before", "after")
    for name, title in REWRITTEN.items():
        before, after = metrics.get(f"rewritten_{name}_count"), metrics.get(f"added_{name}_count")
        if before and after is not None:
            yield compared(title, before, after, words, size if name == "bytes" else number)
    expired, kept = metrics.get("expired_snapshots_count"), metrics.get("kept_snapshots_count")
    if expired and kept is not None:  # a plan knows what stays; a run only counts what went
        yield compared("Snapshots", expired + kept, kept, words)
    elif expired:
        yield Figure("Snapshots", _bars([("expired", expired, "gone")]))
    if deleted := [(label, metrics[name], "gone") for name, label in DELETED.items() if metrics.get(name)]:
        yield Figure("Files that would be deleted" if dry_run else "Files deleted", _bars(deleted))
    planned, removed = metrics.get("planned_files_count"), metrics.get("removed_files_count")
    if planned and removed is not None and not dry_run:
        yield Figure("Orphan files", _bars([("planned", planned, "before"), ("removed", removed, "gone")]))
    elif planned:
        total = metrics.get("planned_bytes_count")
        yield Figure("Orphan files that would go", _bars([("found", planned, "gone")]), size(total) if total else None)
    rewritten = metrics.get("rewritten_bytes_count")
    if rewritten and "added_bytes_count" not in metrics:
        yield Figure("Rewritten", (), size(rewritten))


def compared(
    title: str,
    before: float,
    after: float,
    words: tuple[str, str],
    text: Callable[[float], str] = number,
    *,
    most: float | None = None,
) -> Figure:
    """Return the chart of two numbers.

    :param before: not zero.
    :param words: the labels of the two.
    :param most: the number that the longest bar of a group of charts means; ``None``: the larger of these two.
    """
    change = percent(abs(after - before) / before)
    change = "unchanged" if change == percent(0) else f"{'−' if after < before else '+'}{change}"  # noqa: RUF001 - a real minus sign
    return Figure(title, _bars([(words[0], before, "before"), (words[1], after, "after")], text, most), change)


def _bars(
    values: Sequence[tuple[str, float, str]], text: Callable[[float], str] = number, most: float | None = None
) -> tuple[Bar, ...]:
    most = most or max(value for _, value, _ in values) or 1
    return tuple(
        Bar(label, text(value), max(round(FULL * value / most), LEAST if value else 0), tone) for label, value, tone in values
    )
