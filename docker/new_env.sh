#!/bin/sh
# Print a .env for docker-compose.yaml with new secrets: sh docker/new_env.sh > .env
set -eu

# The shell has created the file with its umask, which may let all users of the machine read it.
[ ! -f /dev/stdout ] || chmod 600 /dev/stdout

# Letters and digits only: passwords are parts of URLs.
secret() { head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }

cat <<EOF
# The environment of docker-compose.yaml, read by docker compose itself. Keep it out of version control.
AIRFLOW_DB_PASSWORD=$(secret 24)
STORE_DB_PASSWORD=$(secret 24)
S3_ACCESS_KEY=$(secret 10)
S3_SECRET_KEY=$(secret 24)
AIRFLOW_FERNET_KEY=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')
AIRFLOW_SECRET_KEY=$(secret 32)
AIRFLOW_JWT_SECRET=$(secret 32)
# Where Spark runs. cluster: a master and workers, for a machine with 12 GiB. small: in the Connect server, for one with 6 GiB.
COMPOSE_PROFILES=cluster
# The port on 127.0.0.1 where Airflow answers.
AIRFLOW_PORT=8080
# How many tasks run at once.
AIRFLOW_PARALLELISM=4
EOF
