"""The options that all builders have."""

from __future__ import annotations

from pathlib import Path

from airflow_snowpack.runners.images.builder import BuildJob


def build_options(job: BuildJob, id_file: Path) -> list[str]:
    """Return the options of a build.

    Of a build argument only the name is among them: the builder takes its value from its own environment.

    :param id_file: where the builder writes the id of the image.
    """
    options = [f"--file={job.dockerfile}", f"--platform={job.target.platform}", f"--iidfile={id_file}"]
    options += [f"--label={name}={value}" for name, value in labels(job).items()]
    return options + [f"--build-arg={name}" for name in sorted(job.source.build_args)]


def labels(job: BuildJob) -> dict[str, str]:
    """Return the labels of the image, by which people find what it was built from."""
    return {
        "org.opencontainers.image.source": job.source.remote,
        "org.opencontainers.image.revision": job.source.revision,
        "airflow-snowpack.key": job.key,
    }
