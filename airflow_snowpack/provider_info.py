"""Metadata for Airflow's provider discovery: the package's modules, commands, connection types and configuration.

``CONFIG`` is the only place that defines an option's type, default and description: ``settings.py`` reads its defaults, and
``airflow config list`` shows it. Every Airflow process imports this module, so it imports nothing.
"""

from __future__ import annotations

from typing import Any

SECTION = "snowpack"


def _option(description: str, *, default: str, kind: str = "string", example: str | None = None) -> dict[str, Any]:
    return {"description": description, "version_added": "0.1.0", "type": kind, "example": example, "default": default}


CONFIG: dict[str, Any] = {
    SECTION: {
        "description": (
            "The store, the catalog and Spark, and how maintenance, schedules, builds, interim tables, entries and images work."
        ),
        "options": {
            "store_conn_id": _option(
                "The Airflow connection (`snowpack_store`, `postgres` or `sqlite`) of the store. Empty: the embedded SQLite file "
                "`snowpack.db` in AIRFLOW_HOME, for a single machine.",
                default="",
                example="snowpack_store",
            ),
            "catalog_conn_id": _option(
                "The Airflow connection of the Iceberg catalog (`snowpack_catalog` for any kind; `iceberg` or `http` for REST, "
                "`postgres` or `sqlite` for SQL). Empty: a SQL catalog in an SQLite file in `home`, next to its warehouse.",
                default="",
                example="lakehouse",
            ),
            "catalog_name": _option(
                "The catalog's name in Spark and PyIceberg. A SQL catalog keys its tables by this name: do not change it later.",
                default="lake",
            ),
            "home": _option(
                "The folder of the embedded catalog and warehouse. Empty: `snowpack` in AIRFLOW_HOME.",
                default="",
                example="/var/lib/snowpack",
            ),
            "spark_conn_id": _option(
                "The Airflow connection (`spark`, `spark_connect` or `hiveserver2`) of the Spark cluster. Empty: a local session "
                "in the task's own process, on `spark_master`.",
                default="",
                example="spark_default",
            ),
            "spark_master": _option("The master of the local session.", default="local[*]"),
            "spark_driver_memory": _option("The heap of the local session's driver.", default="1g", example="4g"),
            "spark_packages": _option(
                "Maven coordinates that Spark loads in addition to Iceberg's, separated by commas.",
                default="",
                example="org.apache.iceberg:iceberg-aws-bundle:1.12.0",
            ),
            "spark_conf": _option(
                "Additional Spark configuration, as a JSON object. Settings whose names contain secret, password, token or key "
                "are kept off the JVM's command line.",
                default="",  # Airflow formats defaults: braces would not survive
                example='{"spark.sql.shuffle.partitions": "64"}',
            ),
            "lease": _option(
                "How long a claim on a job, a build run, an interim table or an image lasts without a heartbeat.",
                default="30m",
            ),
            "heartbeat": _option(
                "How often a running job, build, task or image build renews its claims and locks.", default="60s"
            ),
            "fence_check": _option("How often a worker checks whether its job was cancelled or taken over.", default="2s"),
            "max_attempts": _option(
                "The number of attempts with an expired lease after which the sweeper fails a job, and of failed attempts to "
                "build an image.",
                default="3",
                kind="integer",
            ),
            "retry_base": _option(
                "The back-off of a job that the sweeper requeues, and of an image whose build failed: this, times two to the "
                "power of its attempts.",
                default="30s",
            ),
            "execution": _option(
                "Where `MaintainTableOperator` runs its job, unless its argument `execution` differs. `inline`: in the task. "
                "`queued`: in a worker, while the task waits in the triggerer.",
                default="inline",
                example="queued",
            ),
            "action_order": _option(
                "The order in which the actions of a job run, independent of their order in the request: the first five "
                "of `docs/actions.md`, once each; other actions run last unless it names them. Empty: the order of that page.",
                default="",
            ),
            "continue_on_error": _option(
                "Whether a job continues with its next action after one has failed. Later actions build on earlier ones.",
                default="False",
                kind="boolean",
            ),
            "table_cache_refresh": _option(
                "How often the API lists the catalog's tables. `/readyz` fails when the list is twice as old.",
                default="5m",
            ),
            "table_poll": _option(
                "How often the poller checks a table that enabled schedules wait for; for tables with rare commits, up to six "
                "times as long. It reads metadata only, and only of tables that have changed.",
                default="10s",
            ),
            "load_probes": _option(
                "The load probes that the constraint `cluster_load` can name: `name=package.module:function`, separated "
                "by commas. A function takes no arguments and returns a number. Schedulers, and tasks with a gate, call it.",
                default="",
                example="yarn=my_company.load:yarn",
            ),
            "notifiers": _option(
                "The notifiers of the DAG `snowpack_notifications`, as `package.module:name`: a notifier of Airflow, or "
                "notifiers by owner, with the key `*` for all others.",
                default="",
                example="my_company.alerts:NOTIFIERS",
            ),
            "resume_delay": _option(
                "The minimum time between a task's deferral and the moment its trigger may resume it. Airflow fails a task that "
                "is resumed before the scheduler has processed its deferral.",
                default="10s",
            ),
            "policies": _option(
                "The file with the policies of maintenance: YAML, or Python that names them `policies`. A relative path starts "
                "from the DAG bundle in a task, and from the DAGs folder elsewhere. The default file may be missing.",
                default="policies.yaml",
            ),
            "schedule_files": _option(
                "The files in the DAGs folder that declare schedules: glob patterns, separated by commas. YAML files, and Python "
                "files with schedules at their top level.",
                default="**/*schedules.yaml,**/*schedules.yml,**/*schedules.py",
            ),
            "update_schedules": _option(
                "Whether schedules in the store are created, changed and deleted to match these files. False: schedules are "
                "managed through the API, the pages and the command line only.",
                default="True",
                kind="boolean",
            ),
            "builds_url": _option(
                "Where builds without a `url` are written: each dataset gets a folder of its own name in it. A path, or the URL "
                "of an object storage. Empty: `builds` in `home`, which is refused if an executor runs tasks on other hosts.",
                default="",
                example="s3://lake/builds",
            ),
            "builds_conn_id": _option(
                "The Airflow connection of the builds' storage (`aws`, `google_cloud_platform`, `wasb`, `adls`, or `generic`, "
                "whose extras are the storage's options). Empty: the identity of the machine.",
                default="",
                example="lake_storage",
            ),
            "interim_namespace": _option(
                "The namespace of interim tables in the catalog. The collector and the sweeper drop tables in it: store nothing "
                "else there.",
                default="snowpack_interim",
            ),
            "interim_sweep_after": _option(
                "The age from which the sweeper drops tables and files that are named like interim tables and that the store "
                "does not track.",
                default="1d",
            ),
            "image_builder": _option(
                "What builds images from Git repositories: the command `docker`, `buildah` or `podman` of the worker.",
                default="docker",
                example="buildah",
            ),
            "image_registry_conn_id": _option(
                "The Airflow connection (`docker`: host, user and password; extra `repository`, by default `snowpack`) of the "
                "registry that built images are pushed to. Empty: an image exists only on the host that built it, and each host "
                "builds the images that its tasks need.",
                default="",
                example="docker_default",
            ),
            "runner_folder": _option(
                "The folder that tasks share with the processes, containers and pods that run their entries: inputs and outputs, "
                "removed when the task ends. For the runner `docker`, the daemon's host needs it under the same path. For "
                "`kubernetes`, it is on the volume that workers and pods mount. Empty: `entries` in `home`.",
                default="",
                example="/mnt/snowpack-entries",
            ),
            "airflow_conn_id": _option(
                "The Airflow connection (`http`: address, user and password, or extra `token`) of Airflow's REST API. "
                "Required by `airflow snowpack scheduler` and `airflow snowpack interim collect`; the dispatcher DAG needs it "
                "for pool constraints and to find DAG runs whose end was not recorded; plans of maintenance need it to find the "
                "DAGs that write to and read tables.",
                default="",
                example="snowpack_airflow",
            ),
            "listen_to_airflow": _option(
                "Whether finished DAG runs and asset events are recorded in the store, for schedules that wait for them.",
                default="True",
                kind="boolean",
            ),
            "request_timeout": _option(
                "The time limit for API requests and pages (503 afterwards), and for a command's store access. The store, the "
                "catalog and the storage of builds each get a share of it. Use longer time-outs for proxies and probes.",
                default="5s",
            ),
            "api_host": _option("The address that `airflow snowpack api` listens on.", default="127.0.0.1", example="0.0.0.0"),
            "api_port": _option("The port that `airflow snowpack api` listens on.", default="8085", kind="integer"),
            "api_token": _option(
                "The token for clients of `airflow snowpack api`, at least 16 characters. Empty: `SNOWPACK_API_TOKEN` or "
                "`--token-file` has to provide one.",
                default="",
            )
            | {"sensitive": True},
        },
    }
}


def _field(label: str, description: str, kind: str = "string", **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": [kind, "null"], **schema}}


# Airflow builds its connection forms from this without importing the hooks. The extra stores additional fields.
CONNECTION_TYPES: list[dict[str, Any]] = [
    {
        "connection-type": "snowpack_catalog",
        "hook-class-name": "airflow_snowpack.hooks.iceberg_catalog.IcebergCatalogHook",
        "hook-name": "Iceberg catalog (Snowpack)",
        "ui-field-behaviour": {
            # One field for the address: with two, a user could change one of them and send a secret to the wrong place.
            "hidden-fields": ["schema", "port"],
            "relabeling": {"host": "Address", "login": "Client id, or user", "password": "Client secret, or password"},
            "placeholders": {
                "host": "https://catalog.example.com/api, thrift://host:9083, glue://region, postgresql://host:5432/database or "
                "sqlite:////path/to/file.db",
                "login": "REST: OAuth2 client id; SQL: user; Glue: access key",
            },
        },
        "conn-fields": {
            "warehouse": _field(
                "Warehouse",
                "The location of new tables, such as s3://bucket/warehouse. Optional if the catalog has its own.",
            ),
            "token": _field("Token", "A bearer token for a REST catalog, instead of client id and secret.", format="password"),
            "s3_region": _field("S3 region", "The region of the buckets, such as eu-central-1."),
            "s3_endpoint": _field("S3 endpoint", "The address of an S3 server that is not AWS; paths contain the bucket."),
            "s3_access_key_id": _field("S3 access key", "Empty: the machine's identity, or what the catalog vends."),
            "s3_secret_access_key": _field("S3 secret key", "The secret of the access key.", format="password"),
            "s3_role_arn": _field("S3 role", "The ARN of a role to assume."),
            "gcs_project_id": _field("GCS project", "The project of the buckets; the machine's identity reads and writes them."),
            "adls_account_name": _field("ADLS account", "The name of the storage account."),
            "adls_account_key": _field("ADLS key", "The key of the storage account.", format="password"),
            "properties": _field(
                "Properties",
                'For PyIceberg and Spark, such as {"s3.endpoint": "https://s3.example.com"}.',
                "object",
                format="json",
            ),
            "spark_properties": _field(
                "Spark properties",
                'For Spark only, such as {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}.',
                "object",
                format="json",
            ),
        },
    },
    {
        "connection-type": "snowpack_store",
        "hook-class-name": "airflow_snowpack.hooks.store.SnowpackHook",
        "hook-name": "Snowpack store",
        "ui-field-behaviour": {
            "relabeling": {"schema": "Database"},
            "placeholders": {"host": "the Postgres host", "port": "5432", "extra": '{"sslmode": "require"}'},
        },
        "conn-fields": {
            "sslmode": _field("SSL mode", "A mode of libpq: disable, allow, prefer, require, verify-ca or verify-full."),
        },
    },
]


def _modules(kind: str, *names: str) -> list[dict[str, Any]]:
    return [
        {"integration-name": "Snowpack", "python-modules": [f"airflow_snowpack.{kind}.{name}" for name in names]},
    ]


def get_provider_info() -> dict[str, Any]:
    """Return the provider metadata, in the format of Airflow's provider schema."""
    return {
        "package-name": "airflow-snowpack",
        "name": "Snowpack",
        "description": "Keeps Apache Iceberg tables healthy through Spark, under table locks and fenced, leased claims.",
        "integrations": [
            {
                "integration-name": "Snowpack",
                "external-doc-url": "https://iceberg.apache.org/docs/latest/spark-procedures/",
                "tags": ["apache"],
            }
        ],
        "hooks": _modules("hooks", "store", "iceberg_catalog", "iceberg_spark", "build_storage"),
        "operators": _modules(
            "operators",
            *("maintain", "fleet", "jobs", "workers", "locks", "build", "build_steps", "map", "schedule"),
            *("housekeeping", "notify", "removals"),
            "entries.run_entry",
        ),
        "sensors": _modules("sensors", "maintenance", "data_arrival", "run_constraint", "build_published"),
        "triggers": _modules("triggers", "waits", "dispatcher", "image_builds", "table_watcher"),
        "connection-types": CONNECTION_TYPES,
        "extra-links": ["airflow_snowpack.links.MaintenanceJobLink", "airflow_snowpack.links.BuildRunLink"],
        "task-decorators": [{"name": "snowpack", "class-name": "airflow_snowpack.decorators.snowpack_task.snowpack_task"}],
        "cli": ["airflow_snowpack.cli.main.get_cli_commands"],
        "config": CONFIG,
    }
