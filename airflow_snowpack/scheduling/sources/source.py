"""The sources of a schedule: the tables and DAGs that its trigger listens to, when they were read, and their problems.

    listens = source_key(leaf, catalog)                # 'table:lake.web.views', 'dag:make_views'
    judged = with_problems(trigger, judgement, blocking(trigger, problems, catalog))

The invariant: a trigger has a problem only if no event can satisfy it as things are. One part with a problem is enough for an
``all_of``; an ``any_of`` has one when all of its parts do, and an ``at_latest`` never does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_snowpack.scheduling.sources.source_problems import ProblemKind, SourceProblem
from airflow_snowpack.scheduling.triggers.trigger import Judgement, Leaf, Trigger


@dataclass(frozen=True, slots=True)
class Source:
    """A table or a DAG that a schedule listens to.

    :param kind: ``table`` or ``dag``.
    :param read_at: when the table was last read; ``None`` for never, and for a DAG.
    :param problem: what is wrong with it, for people, and ``asked_at``: when that was last confirmed.
    """

    kind: str
    name: str
    read_at: datetime | None = None
    problem: str | None = None
    asked_at: datetime | None = None


def source_key(leaf: Leaf, catalog: str) -> str | None:
    """Return the key of the source of a leaf; ``None`` for one that listens to neither a table nor a DAG."""
    return None if leaf.source is None else leaf.source.key(catalog)


def problem_of(leaf: Leaf, problem: SourceProblem) -> str | None:
    """Return what a problem of its source means for a leaf; ``None`` for nothing."""
    if leaf.source is None:
        return None
    named = f"the {'DAG' if leaf.source.kind == 'dag' else 'table'} {leaf.source.name}"
    match problem.kind:
        case ProblemKind.MISSING:
            return f"{named} does not exist"
        case ProblemKind.UNREADABLE:
            return f"{named} cannot be read: {problem.problem.rstrip('.')}"
        case ProblemKind.UNPARTITIONED if leaf.measure == "partitions":
            return f"{named} is not partitioned, so all of its data counts as one partition"
    return None


def blocking(trigger: Trigger, problems: Mapping[str, SourceProblem], catalog: str) -> dict[Trigger, str]:
    """Return why leaves cannot be satisfied as things are."""
    found: dict[Trigger, str] = {}
    for leaf in trigger.leaves():
        problem = problems.get(source_key(leaf, catalog) or "")
        if problem is None or (problem.kind is ProblemKind.UNPARTITIONED and leaf.wanted <= 1):
            continue
        if (text := problem_of(leaf, problem)) is not None:
            found[leaf] = text
    return found


def with_problems(trigger: Trigger, judgement: Judgement, blocked: Mapping[Trigger, str]) -> Judgement:
    """Add to a judgement, and to those that it is made of, why it cannot be satisfied as things are."""
    if judgement.satisfied or not blocked:
        return judgement
    if not (children := trigger.children()):
        return replace(judgement, problem=blocked.get(trigger))
    parts = tuple(with_problems(child, part, blocked) for child, part in zip(children, judgement.parts, strict=True))
    problems = [part.problem for part in parts if part.problem is not None]
    is_blocked = bool(problems) and (trigger.needs_all or len(problems) == len(parts))
    return replace(judgement, parts=parts, problem="; ".join(dict.fromkeys(problems)) if is_blocked else None)


def sources_of(
    trigger: Trigger, problems: Mapping[str, SourceProblem], read_at: Mapping[str, datetime], catalog: str
) -> tuple[Source, ...]:
    """Return the sources of a trigger, each once, in the order of its leaves.

    :param problems: by the key of the source, and ``read_at``: when each table was last read.
    """
    found: dict[str, Source] = {}
    for leaf in trigger.leaves():
        if leaf.source is None:
            continue
        key = leaf.source.key(catalog)
        if key in found and found[key].problem is not None:
            continue
        problem = problems.get(key)
        text = None if problem is None else problem_of(leaf, problem)
        asked_at = None if problem is None or text is None else problem.asked_at
        found[key] = Source(leaf.source.kind, leaf.source.name, read_at.get(key), text, asked_at)
    return tuple(found.values())
