"""What is said when Spark runs already with other settings."""

from __future__ import annotations

import pytest

from airflow_snowpack.spark import SparkUnavailable
from airflow_snowpack.spark.session import _check_same


def test_settings_that_differ_are_told_and_secrets_among_them_are_not() -> None:
    key = "spark.hadoop.fs.s3a.secret.key"
    with pytest.raises(SparkUnavailable) as caught:
        _check_same({"spark.driver.memory": "4g", key: "hush"}, {"spark.driver.memory": "1g", key: "psst"})

    said = str(caught.value)
    assert "spark.driver.memory='1g' (requested: '4g')" in said
    assert key in said
    assert "hush" not in said
    assert "psst" not in said
