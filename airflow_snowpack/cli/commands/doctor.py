"""``airflow snowpack doctor``: what is wrong with this installation, as this process sees it, and what to do about it.

Run it in each environment: the API server's, the scheduler's, a worker's. It ends with 1 when something is wrong; a warning is
printed and ends with 0.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import is_for_people, log_to_stderr, print_list
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.wire.listing import Column, Listing

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.cli.commands.doctor_checks import Finding


@ends_cleanly
def examine(args: Namespace) -> ExitCode | None:
    """``doctor``"""
    from airflow_snowpack.cli.commands.doctor_checks import Examined, Verdict, diagnose

    log_to_stderr()
    examined = Examined(args.store_conn_id, args.catalog_conn_id, args.spark_conn_id, start_spark=not args.no_spark)
    findings = diagnose(examined)
    print_list(args.output, FINDINGS, findings, datetime.now(UTC))
    if is_for_people(args.output):
        for finding in findings:
            if finding.to_do:
                print(f"{finding.check}: {finding.to_do}")
    return ExitCode.REFUSED if any(finding.verdict is Verdict.WRONG for finding in findings) else None


FINDINGS: Listing[Finding] = Listing(
    "findings",
    lambda finding: {
        "check": finding.check,
        "verdict": finding.verdict.value,
        "message": finding.message,
        "to_do": finding.to_do,
    },
    (Column("check", "check"), Column("verdict", "verdict"), Column("message", "message")),
)
