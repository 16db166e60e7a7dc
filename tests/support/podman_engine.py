"""A real container engine for the tests: Podman's Docker API on a Unix socket, where Podman runs containers without a daemon.

    if (reason := PodmanEngine.unusable(folder)) is None:
        with PodmanEngine(folder) as engine:
            DockerRunner(engine.image, identity, engine.options).run(invocation, on_line)

The image is empty. It mounts this machine's programs and the Python of the tests, read-only at the same paths.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

IMAGE = "localhost/snowpack/empty:1"
STARTS_WITHIN_S = 60.0
PROGRAMS = ("/usr", "/bin", "/lib", "/lib64", "/etc")


class PodmanEngine:
    """Podman with its own storage below a folder.

    :param folder: short, as the path of a Unix socket is limited to 107 characters.
    """

    image = IMAGE

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "podman.sock"
        files = min(1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        processes = min(1024, resource.getrlimit(resource.RLIMIT_NPROC)[1])
        self._configuration = folder / "containers.conf"
        # Podman asks for more files and processes than this machine may allow, and systemd may not run.
        self._configuration.write_text(
            f'[containers]\ndefault_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]\n'
            '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
            + ('runtime = "runc"\n' if shutil.which("runc") else "")
        )
        self._service: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def options(self) -> dict[str, Any]:
        """Options of the runner."""
        return {"docker_url": self.url, "network_mode": "none", "mounts": [_read_only(path) for path in _programs()]}

    @classmethod
    def unusable(cls, folder: Path) -> str | None:
        """Return why Podman runs no container here, if so."""
        if shutil.which("podman") is None:
            return "Podman is not installed, so the docker runner was tested with the stand-in for a daemon only"
        engine = cls(folder)
        engine.make_image()
        mounts = [f"--volume={path}:{path}:ro" for path in _programs()]
        answer = engine.podman("run", "--rm", "--network=none", *mounts, IMAGE, sys.executable, "-c", "print('it runs')")
        if answer.returncode == 0 and answer.stdout == "it runs\n":
            return None
        return f"Podman runs no container here: {(answer.stderr.strip().splitlines() or ['?'])[-1]}"

    def make_image(self) -> None:
        """Import an empty image."""
        archive = self.folder / "empty.tar"
        archive.write_bytes(bytes(10240))
        self.podman("import", str(archive), IMAGE).check_returncode()

    def podman(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Podman on this storage."""
        return subprocess.run(self._command(*arguments), capture_output=True, text=True, env=self._environment, check=False)

    def __enter__(self) -> Self:
        self._service = subprocess.Popen(
            self._command("system", "service", "--time", "0", self.url),
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "service.log").open("wb"),
        )
        end = time.monotonic() + STARTS_WITHIN_S
        while not self.socket.exists():
            if self._service.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"Podman's service has not started: {(self.folder / 'service.log').read_text()}")
            time.sleep(0.02)
        return self

    def __exit__(self, *raised: object) -> None:
        self.podman("rm", "--all", "--force", "--time=0")
        assert self._service is not None
        self._service.terminate()
        self._service.wait()
        self.podman("rmi", "--all", "--force")
        shutil.rmtree(self.folder, ignore_errors=True)  # what is left of another user's storage cannot be removed

    def _command(self, *arguments: str) -> list[str]:
        storage = ["--root", str(self.folder / "root"), "--runroot", str(self.folder / "run"), "--storage-driver", "vfs"]
        return ["podman", *storage, *arguments]

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "CONTAINERS_CONF": str(self._configuration)}


def _programs() -> list[str]:
    return sorted({path for path in (*PROGRAMS, sys.base_prefix, sys.prefix) if Path(path).exists()})


def _read_only(path: str) -> dict[str, Any]:
    return {"target": path, "source": path, "type": "bind", "read_only": True}
