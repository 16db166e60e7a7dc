"""``airflow snowpack api``: its token, and what it serves. That it really listens is tested beside the API."""

from __future__ import annotations

from argparse import Namespace
from datetime import timedelta
from pathlib import Path

import pytest
from command_line import Run

from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.cli.errors import UnusableToken
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.jobs import Jobs

TOKEN = "0123456789abcdef"


def test_without_a_port_or_a_token_of_some_length_it_does_not_start(snowpack: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    said = snowpack("api")

    assert said.code == 1
    assert said.err.startswith("The API needs a token. Create one with `python -c")

    for port in ["0", "65536", "http"]:
        assert snowpack("api", "--port", port).code == 2

    from airflow_snowpack.cli.commands import api

    monkeypatch.setenv(api.TOKEN_VARIABLE, "hunter2")
    said = snowpack("api")

    assert said.code == 1
    assert "has 7 characters and needs at least 16" in said.err
    assert "hunter2" not in said.err


@pytest.mark.usefixtures("installation")
def test_the_token_comes_from_the_file_or_else_the_environment_or_else_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.cli.commands import api

    monkeypatch.setenv("AIRFLOW__SNOWPACK__API_TOKEN", f"{TOKEN}-from-airflow")
    assert api.read_token(None) == f"{TOKEN}-from-airflow"

    monkeypatch.setenv(api.TOKEN_VARIABLE, f"{TOKEN}-from-environment")
    assert api.read_token(None) == f"{TOKEN}-from-environment"

    file = tmp_path / "token"
    file.write_text(f"{TOKEN}-from-file\n")
    assert api.read_token(str(file)) == f"{TOKEN}-from-file"


def test_a_token_file_that_cannot_be_read_or_is_empty_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_snowpack.cli.commands import api

    monkeypatch.setenv(api.TOKEN_VARIABLE, TOKEN)  # what was asked for is the file, and nothing else
    with pytest.raises(UnusableToken, match="cannot be read"):
        api.read_token(str(tmp_path / "nothing"))
    empty = tmp_path / "empty"
    empty.write_text("\n")
    with pytest.raises(UnusableToken, match="needs a token"):
        api.read_token(str(empty))
    empty.write_text(TOKEN[1:])
    with pytest.raises(UnusableToken, match="has 15 characters"):
        api.read_token(str(empty))


def test_it_serves_the_installations_store_and_catalog_also_when_the_catalog_is_down(
    jobs: Jobs, flights: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.hooks.services import open_services

    services = open_services()

    assert services.inventory.refresh().tables == 1
    assert services.jobs.store.where == jobs.store.where
    services.close()

    from airflow_snowpack.hooks.services import open_services

    monkeypatch.setenv("AIRFLOW_CONN_GONE", '{"conn_type": "iceberg", "host": "http://127.0.0.1:1"}')
    monkeypatch.setenv("AIRFLOW__SNOWPACK__CATALOG_CONN_ID", "gone")
    services = open_services()

    assert services.jobs.list() == []
    services.close()


@pytest.mark.usefixtures("jobs")
def test_the_settings_of_leases_and_of_the_namespace_hold_for_the_api_and_for_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_snowpack.cli.context import open_context
    from airflow_snowpack.hooks.services import open_services

    monkeypatch.setenv("AIRFLOW__SNOWPACK__LEASE", "600s")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HEARTBEAT", "7s")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__INTERIM_NAMESPACE", "team_a_interim")

    def settings_of(builds: BuildRegistry, interim: InterimRegistry) -> tuple[object, ...]:
        return builds.policy.run_lease, builds.policy.heartbeat, interim.policy.lease, interim.policy.namespace

    services = open_services()
    of_the_api = settings_of(services.builds().registry, services.installation.interim)
    services.close()
    with open_context(Namespace(store_conn_id=None)) as here:
        of_a_command = settings_of(here.builds(None).registry, here.installation.interim)

    assert of_the_api == of_a_command == (timedelta(minutes=10), timedelta(seconds=7), timedelta(minutes=10), "team_a_interim")
