"""What differs between versions of Airflow; the tests of the faces can run on each of them."""

from __future__ import annotations

import pytest


def test_a_feature_of_a_later_airflow_is_refused_with_the_version_that_it_needs() -> None:
    from airflow import __version__

    from airflow_snowpack.airflow_versions import NeedsNewerAirflow, require

    with pytest.raises(NeedsNewerAirflow) as refused:
        require("Time travel", (99, 1), "Wait instead.")
    assert str(refused.value) == f"Time travel needs Airflow 99.1, and {__version__} is installed. Wait instead."


def test_a_feature_of_the_installed_airflow_is_allowed() -> None:
    from airflow_snowpack.airflow_versions import AIRFLOW, require

    require("Running", AIRFLOW, "")
