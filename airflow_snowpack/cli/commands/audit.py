"""``airflow snowpack audit``: who did what, when, and through which door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api import bodies
from airflow_snowpack.cli.job_id import HEXADECIMAL, WHOLE, short_id
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, none_of, print_data, print_rows, say
from airflow_snowpack.humanize import ago

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.cli.opened import Opened
    from airflow_snowpack.jobs import AuditEntry


@ends_cleanly
def show(args: Namespace) -> ExitCode | None:
    """``audit``"""
    with opened(args) as here:
        entries, before = _read(args, here)
        now = here.now
    if args.output in ("json", "yaml"):
        print_data(args.output, {"entries": [bodies.audit_body(entry) for entry in entries], "next": before})
        return None
    print_rows(args.output, entries, _columns(now), empty=none_of("changes", filters=(args.subject,), after=args.before))
    if before is not None:
        say(f"There are more: --before {before} goes on.")
    return None


def _read(args: Namespace, here: Opened) -> tuple[list[AuditEntry], int | None]:
    """The entries, newest first, and where the next page begins."""
    if args.subject is not None:
        known = [entry for entry in here.audit.of(_subject(args.subject, here)) if args.before is None or entry.id < args.before]
        entries = known[::-1]
    else:
        entries = here.audit.latest(limit=args.limit + 1, before=args.before)
    shown = entries[: args.limit]
    return shown, shown[-1].id if len(entries) > args.limit else None


def _subject(given: str, here: Opened) -> str:
    """A table may be given without its catalog, and a job by its short id (a deleted one only by its whole id)."""
    if "." in given:
        return given if given.startswith(f"{here.settings.catalog_name}.") else f"{here.settings.catalog_name}.{given}"
    if HEXADECIMAL.fullmatch(given) and len(given) < WHOLE:
        return here.job(given).job_id
    return given


def _columns(now: datetime) -> list[Column[AuditEntry]]:
    return [
        Column("when", lambda entry: bodies.moment(entry.at), lambda entry: ago(entry.at, now)),
        Column("who", lambda entry: entry.actor),
        Column("via", lambda entry: entry.via),
        Column("change", lambda entry: entry.change),
        Column("subject", lambda entry: entry.subject, lambda entry: _short_subject(entry.subject)),
        Column("detail", _detail),
    ]


def _short_subject(subject: str) -> str:
    return short_id(subject) if len(subject) == WHOLE and HEXADECIMAL.fullmatch(subject) else subject


def _detail(entry: AuditEntry) -> str:
    said = {name: value for name, value in entry.detail.items() if value not in (None, "", [], False)}
    return ", ".join(f"{name}={','.join(value) if isinstance(value, list) else value}" for name, value in said.items())
