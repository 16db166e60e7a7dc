# What docker-compose.yaml needs of the image postgres:17, from Debian's packages: its variables, its folder of data, its user.
FROM python:3.11-slim-bookworm

RUN apt-get update && apt-get install --yes --no-install-recommends postgresql \
    && install --directory --owner postgres --mode 700 /var/lib/postgresql/data
ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin \
    PGDATA=/var/lib/postgresql/data
COPY postgres.sh /

USER postgres
STOPSIGNAL SIGINT
ENTRYPOINT ["sh", "/postgres.sh"]
