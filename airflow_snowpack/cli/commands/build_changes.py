"""``airflow snowpack builds publish|rollback|cleanup``: changes, each with its entry in the audit trail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api import build_bodies as bodies
from airflow_snowpack.cli.confirm import confirm
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.exit_code import ExitCode
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, is_for_people, print_data, print_one, print_rows, say
from airflow_snowpack.durations import parse_duration
from airflow_snowpack.humanize import size

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.builds.model import CleanupAction, Retention
    from airflow_snowpack.builds.registry.model import PublishOutcome


@ends_cleanly
def publish(args: Namespace) -> ExitCode | None:
    """``builds publish``"""
    with opened(args) as here:
        _tell(args, here.builds(args.storage_conn_id).publish(args.dataset, args.run, actor=here.actor))
    return None


@ends_cleanly
def rollback(args: Namespace) -> ExitCode | None:
    """``builds rollback``"""
    with opened(args) as here:
        manager = here.builds(args.storage_conn_id)
        current = manager.registry.dataset(args.dataset).current_run
        confirm(f"Readers of {args.dataset} see {current or 'nothing yet'}. Let them see {args.to}?", yes=args.yes)
        _tell(args, manager.rollback(args.dataset, args.to, actor=here.actor))
    return None


@ends_cleanly
def cleanup(args: Namespace) -> ExitCode | None:
    """``builds cleanup``"""
    retention = _retention(args)
    with opened(args) as here:
        manager = here.builds(args.storage_conn_id)
        if not args.dry_run and not args.yes:
            planned = manager.cleanup(args.dataset, retention, actor=None)
            if not planned:
                _tell_actions(args, planned)
                return None
            confirm(f"Delete {_sum(planned)} of {args.dataset}? --dry-run tells which.", yes=False)
        actions = manager.cleanup(args.dataset, retention, actor=None if args.dry_run else here.actor)
    _tell_actions(args, actions)
    return ExitCode.UNREACHABLE if any(action.error for action in actions) else None


def _retention(args: Namespace) -> Retention:
    from airflow_snowpack.builds.model import Retention

    try:
        return Retention(args.keep_runs, parse_duration(args.stale_attempt_age))
    except ValueError as error:
        raise UsageProblem(f"--stale-attempt-age {error}.") from error


def _tell(args: Namespace, outcome: PublishOutcome) -> None:
    if not is_for_people(args.output):
        body = bodies.outcome_body(outcome)
        print_one(args.output, body, body)
        return
    print(f"Readers of {outcome.dataset} see {outcome.run_id} now." if outcome.moved else outcome.reason)
    if not outcome.recorded:
        say("The store could not be told; whoever publishes or cleans up next does that.")


def _tell_actions(args: Namespace, actions: list[CleanupAction]) -> None:
    if args.output in ("json", "yaml"):
        print_data(args.output, bodies.cleanup_body(args.dataset, actions, dry_run=args.dry_run))
        return
    print_rows(args.output, actions, COLUMNS, empty="There is nothing to delete.")
    if actions:
        say(f"{'Would delete' if args.dry_run else 'Deleted'} {_sum(actions)}.")


def _sum(actions: list[CleanupAction]) -> str:
    objects = sum(action.objects or 0 for action in actions)
    return f"{objects:,} object{'' if objects == 1 else 's'} of {size(sum(action.bytes or 0 for action in actions))}"


COLUMNS: list[Column[CleanupAction]] = [
    Column("phase", lambda action: action.phase.value, lambda action: action.phase.value.replace("_", " ")),
    Column("path", lambda action: action.path),
    Column("objects", lambda action: action.objects),
    Column("size", lambda action: action.bytes, lambda action: size(action.bytes or 0)),
    Column("because", lambda action: action.reason),
    Column("problem", lambda action: action.error),
]
