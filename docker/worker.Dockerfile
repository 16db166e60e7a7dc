# A worker without Airflow: this package, its dependency group `worker`, a Java for Spark, and Iceberg's jars already downloaded.
# Build it from the repository's root: docker build --file docker/worker.Dockerfile --tag airflow-snowpack-worker:0.1.0 .
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 50000 snowpack

ENV PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1

# The requirements change less often than the code, and take minutes: a layer of their own.
WORKDIR /opt/airflow-snowpack
COPY pyproject.toml constraints.txt ./
RUN pip install --upgrade "pip>=25.1" \
    && pip install --constraint constraints.txt --group worker
COPY README.md LICENSE ./
COPY airflow_snowpack airflow_snowpack
RUN pip install --no-deps .

USER snowpack
WORKDIR /home/snowpack
# One session downloads the jars into the user's cache, for catalogs on SQLite and Postgres, and for tables on S3.
RUN python -c "from airflow_snowpack.iceberg.catalog import POSTGRES_JDBC, SQLITE_JDBC; \
from airflow_snowpack.spark import SparkConfig, local_session; \
packages = (POSTGRES_JDBC, SQLITE_JDBC, 'org.apache.iceberg:iceberg-aws-bundle:1.12.0'); \
local_session(SparkConfig(packages=packages)).stop()"

# The process itself gets SIGTERM, and ends its job within about two seconds.
ENTRYPOINT ["snowpack-worker"]
