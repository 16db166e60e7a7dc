"""What Airflow's provider discovery reads about this package: its modules, its command line and its configuration.

``CONFIG`` is the one place where an option's type, default and description stand. ``settings.py`` reads by it, and
``airflow config list`` shows it. Every Airflow process imports this module, so it imports nothing.
"""

from __future__ import annotations

from typing import Any

SECTION = "snowpack"


def _option(description: str, *, default: str, kind: str = "string", example: str | None = None) -> dict[str, Any]:
    return {"description": description, "version_added": "0.1.0", "type": kind, "example": example, "default": default}


CONFIG: dict[str, Any] = {
    SECTION: {
        "description": "Where Snowpack keeps its jobs and finds its tables, and how it runs maintenance.",
        "options": {
            "store_conn_id": _option(
                "The Airflow connection (`snowpack_store` or `postgres`, or `sqlite`) of the store that holds jobs, locks and "
                "claims. Empty: the embedded SQLite file `snowpack.db` under AIRFLOW_HOME, which serves one machine.",
                default="",
                example="snowpack_store",
            ),
            "catalog_conn_id": _option(
                "The Airflow connection of the Iceberg catalog (`snowpack_catalog` for each kind; `iceberg` or `http` for REST, "
                "`postgres` or `sqlite` for SQL). "
                "Empty: a SQL catalog in a local SQLite file below `home`, with its warehouse beside it.",
                default="",
                example="lakehouse",
            ),
            "catalog_name": _option(
                "What Spark and PyIceberg call the catalog. A SQL catalog keys its tables by this name: do not change it later.",
                default="lake",
            ),
            "home": _option(
                "The folder of the embedded catalog and warehouse. Empty: `snowpack` under AIRFLOW_HOME.",
                default="",
                example="/var/lib/snowpack",
            ),
            "spark_conn_id": _option(
                "The Airflow connection (`spark` or `spark_connect`) of the cluster that does the work. Empty: a local session "
                "in the task's own process, on `spark_master`.",
                default="",
                example="spark_default",
            ),
            "spark_master": _option("The master of the local session.", default="local[*]"),
            "spark_driver_memory": _option("The heap of the local session's driver.", default="1g", example="4g"),
            "spark_packages": _option(
                "Maven coordinates that Spark loads besides Iceberg's own, separated by commas.",
                default="",
                example="org.apache.iceberg:iceberg-aws-bundle:1.12.0",
            ),
            "spark_conf": _option(
                "Further Spark configuration, as a JSON object. Settings named after a secret, password, token or key stay off "
                "the JVM's command line.",
                default="",  # Airflow formats defaults, so that braces would not survive
                example='{"spark.sql.shuffle.partitions": "64"}',
            ),
            "lease": _option(
                "How long a claim on a job, or on an interim table that is written or read, lasts without a heartbeat.",
                default="30m",
            ),
            "heartbeat": _option("How often a worker renews its claim and its table lock.", default="60s"),
            "fence_check": _option("How often a worker looks whether its job was cancelled or taken over.", default="2s"),
            "max_attempts": _option(
                "How many attempts whose lease ran out a job gets before the sweep fails it.", default="3", kind="integer"
            ),
            "retry_base": _option(
                "A job that the sweep returns waits this long, times two to the power of its attempts.", default="30s"
            ),
            "action_order": _option(
                "The order in which the actions of a job run, whatever order the request has them in. All five, once each.",
                default=(
                    "rewrite_data_files,rewrite_position_delete_files,rewrite_manifests,expire_snapshots,remove_orphan_files"
                ),
            ),
            "continue_on_error": _option(
                "Whether the actions after a failed one still run. Later actions build on earlier ones, so by default "
                "they do not.",
                default="False",
                kind="boolean",
            ),
            "table_cache_refresh": _option(
                "How old the API's list of the catalog's tables gets before it is read again. Twice that, and `/readyz` says no.",
                default="5m",
            ),
            "table_poll": _option(
                "How often a table is read that enabled schedules listen to, while commits come often; up to six times as long "
                "where they are rare. Only metadata is read, and only of tables that have changed.",
                default="10s",
            ),
            "resume_delay": _option(
                "The minimum time between a task's deferral and the moment its trigger may resume it. Airflow fails a task that "
                "is resumed before the scheduler has processed its deferral.",
                default="10s",
            ),
            "schedule_files": _option(
                "The files that declare schedules, below the DAGs folder: glob patterns, separated by commas. YAML files, and "
                "Python files that have schedules at their top level.",
                default="**/*schedules.yaml,**/*schedules.yml,**/*schedules.py",
            ),
            "update_schedules": _option(
                "Whether the store follows these files: creates, changes and deletes what they do. False: people keep the "
                "schedules by API, pages and command line, and the files change nothing.",
                default="True",
                kind="boolean",
            ),
            "builds_url": _option(
                "Where sharded builds go that do not say where: each dataset gets a folder of its name below it. A path, or the "
                "URL of an object storage. Empty: `builds` below `home`.",
                default="",
                example="s3://lake/builds",
            ),
            "builds_conn_id": _option(
                "The Airflow connection of that storage (`aws`, `google_cloud_platform`, `wasb`, `adls`, or `generic`, whose "
                "extras are the storage's options). Empty: the identity of the machine.",
                default="",
                example="lake_storage",
            ),
            "interim_namespace": _option(
                "The database of interim tables, in the catalog `catalog_name`. The collector and the sweeper drop tables in it: "
                "keep nothing else there.",
                default="snowpack_interim",
            ),
            "interim_sweep_after": _option(
                "From which age on the sweeper drops a table, or the files of one, that is called like an interim table and "
                "that the store knows nothing of.",
                default="1d",
            ),
            "airflow_conn_id": _option(
                "The Airflow connection (`http`: address, user and password, or the extra `token`) of Airflow's own REST API. "
                "`airflow snowpack scheduler` and `airflow snowpack interim collect` need it; the dispatcher DAG for constraints "
                "on pools, and to find ends of runs that nobody told.",
                default="",
                example="snowpack_airflow",
            ),
            "listen_to_airflow": _option(
                "Whether ends of DAG runs and asset events become events of the store, for schedules that wait for them.",
                default="True",
                kind="boolean",
            ),
            "request_timeout": _option(
                "How long a request to the API or a page may take, and a command for its store, before it ends with an error "
                "(503). The store, the catalog and the storage of builds get a share of it each. The time-out of a proxy in "
                "front, and of probes, must be longer.",
                default="5s",
            ),
            "api_host": _option("The address that `airflow snowpack api` listens on.", default="127.0.0.1", example="0.0.0.0"),
            "api_port": _option("Its port.", default="8085", kind="integer"),
            "api_token": _option(
                "The token that its callers must have, at least 16 characters. Empty: it refuses to start, unless "
                "`SNOWPACK_API_TOKEN` or `--token-file` has one.",
                default="",
            )
            | {"sensitive": True},
        },
    }
}


def _field(label: str, description: str, kind: str = "string", **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": [kind, "null"], **schema}}


# Fields beyond the standard ones are kept in the connection's extra. Airflow makes its form of this and imports no hook for it.
CONNECTION_TYPES: list[dict[str, Any]] = [
    {
        "connection-type": "snowpack_catalog",
        "hook-class-name": "airflow_snowpack.hooks.iceberg_catalog.IcebergCatalogHook",
        "hook-name": "Iceberg catalog (Snowpack)",
        "ui-field-behaviour": {
            # The address in one field: two fields that say where a secret goes could be changed one without the other.
            "hidden-fields": ["schema", "port"],
            "relabeling": {"host": "Address", "login": "Client id, or user", "password": "Client secret, or password"},
            "placeholders": {
                "host": "https://catalog.example.com/api, postgresql://host:5432/database or sqlite:////path/to/file.db",
                "login": "REST: OAuth2 client id; SQL: user",
            },
        },
        "conn-fields": {
            "warehouse": _field(
                "Warehouse", "Where new tables go, such as s3://bucket/warehouse. A REST catalog may have its own."
            ),
            "token": _field("Token", "A bearer token for a REST catalog, instead of client id and secret.", format="password"),
            "properties": _field(
                "Properties",
                'For PyIceberg and Spark, such as {"s3.endpoint": "https://s3.example.com"}.',
                "object",
                format="json",
            ),
            "spark_properties": _field(
                "Spark properties",
                'For Spark alone, such as {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}.',
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
            "placeholders": {"host": "the host of a Postgres", "port": "5432", "extra": '{"sslmode": "require"}'},
        },
        "conn-fields": {
            "sslmode": _field("SSL mode", "As libpq has it: disable, allow, prefer, require, verify-ca or verify-full."),
        },
    },
]


def _modules(kind: str, *names: str) -> list[dict[str, Any]]:
    return [
        {"integration-name": "Snowpack", "python-modules": [f"airflow_snowpack.{kind}.{name}" for name in names]},
    ]


def get_provider_info() -> dict[str, Any]:
    """The provider metadata, in the shape of Airflow's provider schema."""
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
            "operators", "maintain", "jobs", "locks", "build", "build_steps", "map", "schedule", "housekeeping"
        ),
        "sensors": _modules("sensors", "maintenance", "data_arrival", "run_constraint", "build_published"),
        "triggers": _modules("triggers", "waits", "dispatcher", "table_watcher"),
        "connection-types": CONNECTION_TYPES,
        "extra-links": ["airflow_snowpack.links.MaintenanceJobLink", "airflow_snowpack.links.BuildRunLink"],
        "task-decorators": [{"name": "snowpack", "class-name": "airflow_snowpack.decorators.snowpack_task.snowpack_task"}],
        "cli": ["airflow_snowpack.cli.main.get_cli_commands"],
        "config": CONFIG,
    }
