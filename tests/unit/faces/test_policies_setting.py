"""Where the policies of an installation are: the setting ``[snowpack] policies``."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_snowpack import hooks
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.maintenance.policies import InvalidPolicies, Policies, PoliciesFile, PoliciesNotFound
from airflow_snowpack.settings import InvalidSetting, Settings

TABLE = TableName("lake", "demo", "flights")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The DAGs folder."""
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    return tmp_path


def every(hours: int) -> str:
    return f"default: {{cadence: {hours}h}}\n"


def cadence(policies: Policies) -> timedelta | None:
    return policies.of(TABLE, {}).actions["expire_snapshots"].cadence


@pytest.mark.usefixtures("folder")
def test_without_a_file_the_defaults_hold() -> None:
    assert hooks.SnowpackHook().policies().rules == ()


def test_the_file_is_in_the_dags_folder_or_in_the_bundle_of_a_task(folder: Path) -> None:
    bundle = folder / "bundle"
    bundle.mkdir()
    (folder / "policies.yaml").write_text(every(1))
    (bundle / "policies.yaml").write_text(every(2))

    assert cadence(hooks.SnowpackHook().policies()) == timedelta(hours=1)
    assert cadence(hooks.SnowpackHook().policies(bundle)) == timedelta(hours=2)


def test_a_setting_names_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "rules.yml").write_text(every(3))
    for setting in ("rules.yml", str(folder / "rules.yml")):
        monkeypatch.setenv("AIRFLOW__SNOWPACK__POLICIES", setting)
        assert cadence(hooks.SnowpackHook().policies()) == timedelta(hours=3)


@pytest.mark.usefixtures("folder")
def test_a_file_that_is_named_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__POLICIES", "absent.yaml")
    with pytest.raises(PoliciesNotFound, match=r"absent\.yaml cannot be read"):
        hooks.SnowpackHook().policies()


@pytest.mark.parametrize("text", ["", "policies", "policies.json"])
def test_a_setting_that_is_no_such_file_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__POLICIES", text)
    with pytest.raises(InvalidSetting, match=r"ends in \.yaml, \.yml or \.py"):
        Settings.load()


def test_a_process_that_runs_for_long_reads_the_file_again_when_it_changed(tmp_path: Path) -> None:
    file = PoliciesFile.of_setting("policies.yaml", tmp_path)
    assert file.policies().rules == ()
    for hours in (1, 2):
        file.path.write_text(every(hours))
        os.utime(file.path, ns=(hours, hours))
        assert cadence(file.policies()) == timedelta(hours=hours)
        assert file.policies() is file.policies()
    file.path.write_text("rules: 7")
    with pytest.raises(InvalidPolicies):
        file.policies()
    file.path.unlink()
    assert file.policies().rules == ()


@pytest.mark.usefixtures("folder")
def test_the_services_of_an_installation_have_its_policies(
    folder: Path, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from command_line import settle

    settle(sqlite_url, tmp_path, monkeypatch)
    (folder / "policies.yaml").write_text(every(5))
    with hooks.SnowpackHook() as hook:
        assert cadence(hook.installation.policies) == timedelta(hours=5)
