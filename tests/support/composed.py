"""``docker-compose.yaml`` on a Docker daemon of one's own, without a registry and without a bridge.

    with Daemon(folder, connected=True) as docker:
        make_base_image(docker, folder)
        Compose(docker, "small").run("build")
    with Daemon(folder, connected=False) as docker, Compose(docker, "small").up() as compose:
        compose.execute("scheduler", "airflow", "dags", "list")

The images are the project's own, on a Debian of ``debootstrap`` that gets the name of the official Python image. Containers use
the daemon's network. A daemon that is not ``connected`` has only a loopback of its own: no port of the machine is taken, and no
server can be reached from outside.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bounded import end_all

REPOSITORY = Path(__file__).parents[2]
OVERRIDE = Path(__file__).parent / "compose" / "host_network.yaml"
BASE = "python:3.11-slim-bookworm"
PACKAGES = "ca-certificates,procps,python-is-python3,python3,python3-pip"
# Debian's pip installs beside Debian's own packages only if it may.
BASE_ENVIRONMENT = "ENV PIP_BREAK_SYSTEM_PACKAGES=1 LANG=C.UTF-8 PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NETWORK_OFF = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
NO_NETWORKS = ["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"]
COMMAND_LIMIT_S = 3600.0
DAEMON_LIMIT_S = 300.0
STOP_LIMIT_S = 120.0


def why_not() -> str | None:
    """Return why this machine cannot run the daemon or Compose; ``None`` if it can."""
    if os.geteuid() != 0:
        return "a Docker daemon of its own needs root"
    missing = [name for name in ("dockerd", "docker", "docker-compose", "debootstrap", "unshare", "ip") if not shutil.which(name)]
    if missing:
        return f"it needs {', '.join(missing)} on the PATH: Debian's docker.io and debootstrap, and Compose 2.24 or newer"
    version = subprocess.run(["docker-compose", "version", "--short"], capture_output=True, text=True, timeout=60, check=False)
    if version.returncode or version.stdout.lstrip("v").startswith("1."):
        return "docker-compose is not version 2.24 or newer"
    return None


class Daemon:
    """A Docker daemon.

    :param folder: the folder of its images, containers and volumes; it stays.
    :param connected: whether it has the network of this machine.
    """

    def __init__(self, folder: Path, *, connected: bool) -> None:
        self._folder = folder
        self._command = [] if connected else NETWORK_OFF
        self._process: subprocess.Popen[str] | None = None
        self.environment = os.environ | {
            "DOCKER_HOST": f"unix://{folder}/docker.sock",
            # Without the plug-in that newer builders need.
            "DOCKER_BUILDKIT": "0",
        }

    def __enter__(self) -> Daemon:
        self._folder.mkdir(parents=True, exist_ok=True)
        paths = [f"--data-root={self._folder}/data", f"--exec-root={self._folder}/exec", f"--pidfile={self._folder}/pid"]
        command = [*self._command, "dockerd", f"--host={self.environment['DOCKER_HOST']}", *paths, *NO_NETWORKS]
        with (self._folder / "dockerd.log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, text=True, start_new_session=True)
        deadline = time.monotonic() + DAEMON_LIMIT_S
        while self._answers() is False:
            assert self._process.poll() is None, (self._folder / "dockerd.log").read_text()[-4000:]
            assert time.monotonic() < deadline, "the daemon does not answer"
            time.sleep(0.2)
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            end_all(self._process)

    @property
    def pid(self) -> int:
        """The id of a process in the daemon's network."""
        return int((self._folder / "pid").read_text())

    def run(self, *command: str | Path, **arguments: Any) -> str:
        """Run a command with this daemon to its end; return what it printed."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=COMMAND_LIMIT_S, check=False, **arguments
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-8000:]}{done.stderr[-8000:]}"
        return done.stdout

    def _answers(self) -> bool:
        return (
            subprocess.run(["docker", "version"], env=self.environment, capture_output=True, timeout=60, check=False).returncode
            == 0
        )


def make_base_image(docker: Daemon, folder: Path) -> None:
    """Make the image on which the project's images are built, with the certificates that this machine trusts."""
    root = folder / "debian"
    shutil.rmtree(root, ignore_errors=True)
    docker.run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", root, "http://deb.debian.org/debian")
    for certificate in Path("/usr/local/share/ca-certificates").glob("*.crt"):
        shutil.copy(certificate, root / "usr/local/share/ca-certificates")
    docker.run("chroot", root, "update-ca-certificates")
    archive = folder / "debian.tar"
    docker.run("tar", "-C", root, "-cf", archive, ".")
    docker.run("docker", "import", "--change", BASE_ENVIRONMENT, archive, BASE)
    archive.unlink()
    shutil.rmtree(root)


class Compose:
    """The project of ``docker-compose.yaml``.

    :param profile: ``cluster`` or ``small``.
    :param folder: of its ``.env``, which is made as the documentation describes.
    """

    def __init__(self, docker: Daemon, profile: str, folder: Path) -> None:
        self.docker = docker
        new_env = docker.run("sh", REPOSITORY / "docker" / "new_env.sh")
        self._env = folder / f"{profile}.env"
        self._env.write_text(new_env.replace("COMPOSE_PROFILES=cluster", f"COMPOSE_PROFILES={profile}"))

    def run(self, *arguments: str, **more: Any) -> str:
        files = ("-f", REPOSITORY / "docker-compose.yaml", "-f", OVERRIDE)
        return self.docker.run("docker-compose", "--env-file", self._env, *files, *arguments, **more)

    @contextmanager
    def up(self) -> Iterator[Compose]:
        """Run everything inside of the block; remove containers and volumes afterwards."""
        try:
            self.run("up", "--no-build", "--wait")
            yield self
        except BaseException:
            print(self.run("ps", "--all"), self.run("logs", "--tail", "60"))
            raise
        finally:
            self.run("down", "--volumes")

    def environment(self, service: str) -> dict[str, str]:
        """Return the variables that a service gets."""
        project = json.loads(self.run("config", "--format", "json"))
        found: dict[str, str] = project["services"][service]["environment"]
        return found

    def execute(self, service: str, *command: str, **more: Any) -> str:
        """Run a command in the container of a service; return what it printed."""
        return self.run("exec", "--no-TTY", service, *command, **more)

    def exit_code(self, service: str) -> int:
        """Stop a service as the daemon does; return the exit code of its container."""
        self.run("stop", service)
        return int(self.docker.run("docker", "inspect", "--format", "{{.State.ExitCode}}", f"airflow-snowpack-{service}-1"))
