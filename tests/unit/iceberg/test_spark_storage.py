"""Spark reaches the storage that PyIceberg's properties of a catalog describe."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_snowpack.iceberg import CatalogConfig

PREFIX = "spark.sql.catalog.lake."
S3_IO = "org.apache.iceberg.aws.s3.S3FileIO"
BUNDLE = "org.apache.iceberg:iceberg-{}-bundle"


def catalog(warehouse: str, **properties: str) -> CatalogConfig:
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in properties.items()}
    return CatalogConfig.postgres("lake", host="db", database="iceberg", warehouse=warehouse, properties=given)


def of_spark(config: CatalogConfig, *names: str) -> Mapping[str, str | None]:
    conf = config.spark_conf()
    return {name: conf.get(PREFIX + name) for name in names}


@pytest.mark.cell("Local Spark", "SQL", "S3", asserted=True)
def test_s3_has_its_region_its_role_and_buckets_in_the_path_of_an_endpoint() -> None:
    config = catalog("s3://lake", s3__endpoint="http://s3", s3__region="eu-central-1", s3__role_arn="arn:aws:iam::1:role/r")

    assert of_spark(config, "io-impl", "client.region", "s3.path-style-access", "client.factory", "client.assume-role.arn") == {
        "io-impl": S3_IO,
        "client.region": "eu-central-1",
        "s3.path-style-access": "true",
        "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
        "client.assume-role.arn": "arn:aws:iam::1:role/r",
    }
    assert BUNDLE.format("aws") in config.spark_packages()


def test_buckets_are_in_the_hosts_name_if_that_was_chosen() -> None:
    config = catalog("s3://lake", s3__endpoint="http://s3", s3__force_virtual_addressing="true")

    assert of_spark(config, "s3.path-style-access") == {"s3.path-style-access": None}


@pytest.mark.cell("Local Spark", "SQL", "GCS", asserted=True)
def test_gcs_has_its_own_file_access_and_bundle() -> None:
    config = catalog("gs://lake", gcs__project_id="p")

    assert of_spark(config, "io-impl", "gcs.project-id") == {
        "io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO",
        "gcs.project-id": "p",
    }
    assert BUNDLE.format("gcp") in config.spark_packages()


@pytest.mark.cell("Local Spark", "SQL", "ADLS", asserted=True)
def test_the_account_of_adls_has_the_names_of_java() -> None:
    config = catalog(
        "abfss://lake@acme.dfs.core.windows.net", adls__account_name="acme", adls__account_key="k", adls__sas_token="t"
    )
    java = {
        "io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
        "adls.auth.shared-key.account.name": "acme",
        "adls.auth.shared-key.account.key": "k",
        "adls.sas-token.acme.dfs.core.windows.net": "t",
    }

    assert of_spark(config, *java) == java
    assert BUNDLE.format("azure") in config.spark_packages()


@pytest.mark.parametrize("warehouse", ["file:///lake", "hdfs://nn/lake", "gs://lake", "s3a://lake"])
def test_hadoop_opens_what_no_property_is_for(warehouse: str) -> None:
    config = catalog(warehouse)

    assert of_spark(config, "io-impl") == {"io-impl": None}
    assert config.spark_packages() == catalog("file:///lake").spark_packages()


def test_what_is_for_spark_alone_overrides_what_was_translated() -> None:
    config = CatalogConfig.rest("lake", "http://catalog", warehouse="s3://lake", spark_properties={"io-impl": "com.acme.Io"})

    assert of_spark(config, "io-impl") == {"io-impl": "com.acme.Io"}


def test_hive_and_glue_are_named_by_their_addresses() -> None:
    hive = CatalogConfig.hive("lake", "thrift://b:9083, thrift://a:9083")
    glue = CatalogConfig.glue("lake", "eu-central-1")

    assert hive.catalog_id == CatalogConfig.hive("lake", "thrift://a:9083,thrift://b:9083").catalog_id
    assert of_spark(hive, "type") == {"type": "hive"}
    assert of_spark(glue, "type", "client.region") == {"type": "glue", "client.region": "eu-central-1"}
    # A property wins over the address, in PyIceberg and Spark, too.
    assert CatalogConfig.hive("lake", "thrift://c:9083", properties={"uri": hive.address}).catalog_id == hive.catalog_id
    assert CatalogConfig.glue("lake", "us-east-1", properties={"glue.region": glue.address}).catalog_id == glue.catalog_id
    assert len({hive.catalog_id, glue.catalog_id, CatalogConfig.glue("lake", "us-east-1").catalog_id}) == 3
