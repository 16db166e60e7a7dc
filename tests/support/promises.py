"""The promises of the package, and the tests that try to break each of them: what ``make soak`` runs and reports on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """A promise.

    :ivar number: its number in the architecture.
    :ivar title: the promise itself.
    :ivar tests: the files below ``tests/`` whose failures are violations of it.
    """

    number: int
    title: str
    tests: tuple[str, ...]


PROMISES = (
    Promise(
        1,
        "One attempt counts",
        (
            "integration/jobs/test_attempt.py",
            "integration/jobs/test_claim_order.py",
            "integration/jobs/test_kills.py",
            "integration/jobs/test_many_workers.py",
            "integration/jobs/test_model.py",
            "integration/jobs/test_queue.py",
            "integration/jobs/test_races.py",
            "integration/builds/test_build_races.py",
            "integration/faces/test_entry_kills.py",
            "integration/interim/test_interim_races.py",
            "integration/runners/test_process_tree.py",
            "integration/runners/images/test_image_races.py",
            "system/test_entries.py",
            "system/test_kills.py",
        ),
    ),
    Promise(
        2,
        "Nothing is lost",
        (
            "integration/api/test_killed_server.py",
            "integration/builds/test_build_kills.py",
            "integration/builds/test_build_outages.py",
            "integration/interim/test_interim_kills.py",
            "integration/jobs/test_listing.py",
            "integration/maintenance/fleet/test_fleet_kills.py",
            "integration/scheduling/test_backlog.py",
            "integration/scheduling/test_gate.py",
            "integration/scheduling/test_late_events.py",
            "integration/scheduling/test_model.py",
            "integration/scheduling/test_races.py",
            "integration/scheduling/test_scheduling_kills.py",
            "integration/scheduling/test_skipped_requests.py",
            "system/test_compose_up.py",
            "system/test_dispatcher_kills.py",
            "system/test_interim_tables.py",
        ),
    ),
    Promise(
        3,
        "Data never changes silently",
        (
            "integration/builds/test_cluster_builds_on_spark.py",
            "integration/interim/test_reduction_killed_on_spark.py",
            "integration/interim/test_rows_contract_on_spark.py",
            "integration/maintenance/test_conditions_on_spark.py",
            "integration/maintenance/test_conflicts.py",
            "integration/maintenance/test_interrupting.py",
            "integration/maintenance/test_rows_of_the_zoo.py",
            "integration/maintenance/test_s3_faults.py",
            "integration/maintenance/test_worker_on_spark.py",
            "unit/builds/test_build_selection.py",
            "unit/interim/test_interim_frames.py",
            "unit/arrow/test_lossless.py",
            "unit/interim/test_rows_contract.py",
            "unit/runners/test_module_tables.py",
        ),
    ),
    Promise(
        4,
        "Every wait can be explained",
        (
            "integration/api/test_schemathesis.py",
            "integration/jobs/test_explanation.py",
            "integration/scheduling/test_explanation.py",
            "integration/scheduling/test_sources.py",
        ),
    ),
    Promise(
        5,
        "Nothing is deleted on a guess",
        (
            "integration/builds/test_build_cleanup.py",
            "integration/builds/test_build_promises.py",
            "integration/builds/test_registry_conformance.py",
            "integration/interim/test_interim_drops.py",
            "integration/interim/test_interim_ownership.py",
            "integration/interim/test_registry_conformance.py",
            "integration/maintenance/test_files_of_other_tables.py",
            "integration/maintenance/test_orphans.py",
            "integration/maintenance/test_orphans_on_s3.py",
            "integration/maintenance/test_quarantine.py",
        ),
    ),
    Promise(
        6,
        "Cost follows what is touched",
        (
            "integration/interim/test_interim_backlog.py",
            "integration/interim/test_interim_cost.py",
            "integration/interim/test_interim_plans.py",
            "integration/jobs/test_listing_plans.py",
            "integration/jobs/test_postgres_plans.py",
            "integration/scheduling/test_plans.py",
            "unit/maintenance/fleet/test_ranking.py",
            "system/test_many_waiting.py",
        ),
    ),
    Promise(
        7,
        "The domain does not know Airflow",
        ("unit/test_imports.py",),
    ),
)


def promise_of(nodeid: str) -> Promise | None:
    """Return the promise that this test is about; ``None`` for a test that is not part of a soak run."""
    file = nodeid.partition("::")[0].removeprefix("tests/")
    return next((promise for promise in PROMISES if file in promise.tests), None)
