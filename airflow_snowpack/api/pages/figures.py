"""What an action changed, as small charts of before and after.

    figures(result)[0].title, figures(result)[0].change      # 'Data files', and by how many percent they became fewer

The numbers are the action's metrics, in the procedures' own names; an action that counted nothing has no chart.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from airflow_snowpack.humanize import number, size
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


Metrics = Mapping[str, int | float]

# Title, the number before, the number after.
PAIRS: tuple[tuple[str, str, str], ...] = (
    ("Data files", "rewritten_data_files_count", "added_data_files_count"),
    ("Delete files", "rewritten_delete_files_count", "added_delete_files_count"),
    ("Manifests", "rewritten_manifests_count", "added_manifests_count"),
    ("Size", "rewritten_bytes_count", "added_bytes_count"),
)
DELETED = {
    "deleted_data_files_count": "data files",
    "deleted_position_delete_files_count": "position deletes",
    "deleted_equality_delete_files_count": "equality deletes",
    "deleted_manifest_files_count": "manifests",
    "deleted_manifest_lists_count": "manifest lists",
    "deleted_statistics_files_count": "statistics",
}


def figures(result: ActionResult, *, dry_run: bool = False) -> list[Figure]:
    """The charts of one action.

    :param dry_run: the numbers are what it would do.
    """
    metrics = result.metrics
    words = ("now", "then") if dry_run else ("before", "after")
    made = [_pair(title, metrics, (before, after), words) for title, before, after in PAIRS]
    made += [_snapshots(metrics, words), _deleted(metrics, dry_run), _orphans(metrics, dry_run), _rewritten_size(metrics)]
    return [figure for figure in made if figure is not None]


def _pair(title: str, metrics: Metrics, names: tuple[str, str], words: tuple[str, str]) -> Figure | None:
    before, after = (metrics.get(name) for name in names)
    if not before or after is None:
        return None
    text = size if names[0].endswith("bytes_count") else number
    values = ((words[0], before, "before"), (words[1], after, "after"))
    return Figure(title, _bars(values, text), _change(before, after))


def _snapshots(metrics: Metrics, words: tuple[str, str]) -> Figure | None:
    """A plan knows what stays; a run only counts what went."""
    expired, kept = metrics.get("expired_snapshots_count"), metrics.get("kept_snapshots_count")
    if not expired:
        return None
    if kept is None:
        return Figure("Snapshots", _bars((("expired", expired, "gone"),), number))
    values = ((words[0], expired + kept, "before"), (words[1], kept, "after"))
    return Figure("Snapshots", _bars(values, number), _change(expired + kept, kept))


def _deleted(metrics: Metrics, dry_run: bool) -> Figure | None:
    values = [(label, metrics[name], "gone") for name, label in DELETED.items() if metrics.get(name)]
    title = "Files that would be deleted" if dry_run else "Files deleted"
    return Figure(title, _bars(values, number)) if values else None


def _orphans(metrics: Metrics, dry_run: bool) -> Figure | None:
    planned, removed = metrics.get("planned_files_count"), metrics.get("removed_files_count")
    if not planned:
        return None
    if dry_run or removed is None:
        planned_size = metrics.get("planned_bytes_count")
        change = size(planned_size) if planned_size else None
        return Figure("Orphan files that would go", _bars((("found", planned, "gone"),), number), change)
    return Figure("Orphan files", _bars((("planned", planned, "before"), ("removed", removed, "gone")), number))


def _rewritten_size(metrics: Metrics) -> Figure | None:
    """Return how much was rewritten, when only that is known."""
    taken = metrics.get("rewritten_bytes_count")
    if not taken or "added_bytes_count" in metrics:
        return None
    return Figure("Rewritten", (), size(taken))


def _bars(
    values: "tuple[tuple[str, float, str], ...] | list[tuple[str, float, str]]", text: Callable[[float], str]
) -> tuple[Bar, ...]:
    most = max(value for _, value, _ in values) or 1
    return tuple(
        Bar(label, text(value), max(round(FULL * value / most), LEAST if value else 0), tone) for label, value, tone in values
    )


def _change(before: float, after: float) -> str:
    percent = round(100 * (after - before) / before)
    return "unchanged" if percent == 0 else f"{'−' if percent < 0 else '+'}{abs(percent):,} %"  # noqa: RUF001 - a real minus sign
