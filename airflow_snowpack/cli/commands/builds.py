"""``airflow snowpack builds list|show|verify``: the datasets that are built, their runs, and the shards of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api import build_bodies as bodies
from airflow_snowpack.api.bodies import moment
from airflow_snowpack.cli.exit_code import ExitCode
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, none_of, print_data, print_one, print_rows, say
from airflow_snowpack.humanize import ago, size

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow_snowpack.builds.manager import BuildManager
    from airflow_snowpack.builds.read.verify import ShardProblem, Verification
    from airflow_snowpack.builds.registry.model import BuildDataset, BuildRun
    from airflow_snowpack.builds.run_inspection import ShardInspection

PROGRAMS = ("json", "yaml")
MOVES = 20


@ends_cleanly
def list_datasets(args: Namespace) -> ExitCode | None:
    """``builds list``"""
    with opened(args) as here:
        found, now = here.builds(None).registry.datasets(limit=args.limit, after=args.after), here.now
    shown, after = found.items, found.next
    if args.output in PROGRAMS:
        print_data(args.output, {"datasets": [bodies.dataset_body(each) for each in shown], "next": after})
        return None
    print_rows(args.output, shown, _dataset_columns(now), empty=none_of("datasets", after=args.after))
    if after is not None:
        say(f"There are more: --after {after} goes on.")
    return None


@ends_cleanly
def show(args: Namespace) -> ExitCode | None:
    """``builds show``"""
    with opened(args) as here:
        manager, now = here.builds(args.storage_conn_id), here.now
        if args.run is None:
            _show_dataset(args, manager, now)
        else:
            _show_run(args, manager, now)
    return None


@ends_cleanly
def verify(args: Namespace) -> ExitCode | None:
    """``builds verify``"""
    with opened(args) as here:
        found = here.builds(args.storage_conn_id).verify(args.dataset, args.run)
    if args.output in PROGRAMS:
        print_data(args.output, _verification_body(found))
    elif found.problems:
        print_rows(args.output, found.problems, PROBLEM_COLUMNS, empty="")
        say(f"{found.run_id} of {found.dataset}: {len(found.problems)} of {found.shards:,} shards are not what was written.")
    else:
        print(f"{found.run_id} of {found.dataset}: {found.shards:,} shards with {found.rows:,} rows are what was written.")
    return None if found.sound else ExitCode.REFUSED


def _verification_body(found: Verification) -> dict[str, object]:
    problems = [{"shard_id": each.shard_id, "path": each.path, "problem": each.problem} for each in found.problems]
    numbers = {"shards": found.shards, "rows": found.rows, "bytes": found.bytes}
    return {"dataset": found.dataset, "run_id": found.run_id, "manifest": found.manifest} | numbers | {"problems": problems}


def _show_dataset(args: Namespace, manager: BuildManager, now: datetime) -> None:
    registry = manager.registry
    known = registry.dataset(args.dataset)
    found = registry.runs(args.dataset, limit=args.limit, before=args.before)
    shown, before = found.items, found.next
    if args.output in PROGRAMS:
        moves = registry.publications(args.dataset, limit=MOVES)
        body = bodies.dataset_body(known) | {
            "publications": [bodies.publication_body(each) for each in moves],
            "runs": [bodies.run_body(run, known.current_run) for run in shown],
            "next": before,
        }
        print_data(args.output, body)
        return
    fields = {
        "dataset": known.dataset,
        "stands at": known.url,
        "readers see": known.current_run or "nothing yet",
        "since": ago(known.moved_at, now),
        **({"locked by": f"{known.locked_by}, until {moment(known.locked_until)}"} if known.locked_by else {}),
    }
    print_one(args.output, bodies.dataset_body(known), fields)
    print()
    print_rows(args.output, shown, _run_columns(known.current_run, now), empty=none_of("runs"))
    if before is not None:
        say(f"There are more: --before {before} goes on.")


def _show_run(args: Namespace, manager: BuildManager, now: datetime) -> None:
    known = manager.registry.dataset(args.dataset)
    first = -1 if args.after_shard is None else args.after_shard
    seen = manager.inspect(args.dataset, args.run, after=first, limit=args.limit)
    body = bodies.seen_body(seen, known.current_run)
    if args.output in PROGRAMS:
        print_data(args.output, body)
        return
    run = seen.run
    fields = {
        "run": run.run_id,
        "status": status_of(run, known.current_run),
        "data of": moment(run.as_of),
        "begun": ago(run.started_at, now),
        "owner": run.owner,
        "shards": run.num_shards,
        **({"rows": f"{run.rows:,}", "size": size(run.bytes or 0)} if run.rows is not None else {}),
        **({"manifest": run.manifest} if run.manifest else {}),
        **({"error": run.error} if run.error else {}),
        **({"problem": seen.problem} if seen.problem else {}),
    }
    print_one(args.output, body, fields)
    print()
    print_rows(args.output, seen.shards, SHARD_COLUMNS, empty="There are no more shards.")
    if body["next"] is not None:
        say(f"There are more: --after-shard {body['next']} goes on.")


def status_of(run: BuildRun, current_run: str | None) -> str:
    """How people call it."""
    if run.deleted_at is not None:
        return f"{run.status.value}, cleaned up"
    if run.run_id == current_run:
        return "current"
    return "published" if run.status.value == "succeeded" else run.status.value


def _dataset_columns(now: datetime) -> list[Column[BuildDataset]]:
    return [
        Column("dataset", lambda each: each.dataset),
        Column("readers see", lambda each: each.current_run, lambda each: each.current_run or "nothing yet"),
        Column("since", lambda each: moment(each.moved_at), lambda each: ago(each.moved_at, now)),
        Column("newest data", lambda each: moment(each.newest_as_of), lambda each: ago(each.newest_as_of, now)),
        Column("locked by", lambda each: each.locked_by),
        Column("stands at", lambda each: each.url),
    ]


def _run_columns(current_run: str | None, now: datetime) -> list[Column[BuildRun]]:
    return [
        Column("run", lambda run: run.run_id),
        Column("status", lambda run: status_of(run, current_run)),
        Column("data of", lambda run: moment(run.as_of), lambda run: f"{run.as_of:%Y-%m-%d %H:%M}"),
        Column("begun", lambda run: moment(run.started_at), lambda run: ago(run.started_at, now)),
        Column("shards", lambda run: run.num_shards),
        Column("rows", lambda run: run.rows, lambda run: "" if run.rows is None else f"{run.rows:,}"),
        Column("size", lambda run: run.bytes, lambda run: "" if run.bytes is None else size(run.bytes)),
        Column("error", lambda run: run.error, lambda run: (run.error or "")[:60]),
    ]


PROBLEM_COLUMNS: list[Column[ShardProblem]] = [
    Column("shard", lambda each: each.shard_id),
    Column("file", lambda each: each.path),
    Column("problem", lambda each: each.problem),
]


def _size(shard: ShardInspection) -> str:
    return size(shard.winner.bytes) if shard.winner else ""


SHARD_COLUMNS: list[Column[ShardInspection]] = [
    Column("shard", lambda shard: shard.shard_id),
    Column("rows", lambda shard: shard.winner and shard.winner.rows),
    Column("size", lambda shard: shard.winner and shard.winner.bytes, _size),
    Column("smallest key", lambda shard: bodies.key_text(shard.winner.min_key) if shard.winner else None),
    Column("greatest key", lambda shard: bodies.key_text(shard.winner.max_key) if shard.winner else None),
    Column("winner", lambda shard: shard.winner.url if shard.winner else None),
    Column("losers", lambda shard: len(shard.losers), lambda shard: str(len(shard.losers) or "")),
    Column(
        "attempts", lambda shard: len(shard.attempts), lambda shard: "" if shard.winner else str(len(shard.attempts) or "none")
    ),
]
