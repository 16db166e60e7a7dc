"""Write a worker with its Python and the libraries of both to an archive, for nodes that have only Java and Spark.

    python docker/spark/worker_archive.py dist/worker.tar.gz

venv-pack leaves out the interpreter and conda-pack needs a Conda environment, so this copies the interpreter that runs it. The
nodes need the same processor architecture, and a C library that is as new as this machine's.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).parents[2]
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
LEFT_OUT = shutil.ignore_patterns(
    "site-packages", "dist-packages", "test", "idlelib", "tkinter", "_tkinter*", "turtledemo", "ensurepip", "__pycache__", "*.a",
    "config-*", "EXTERNALLY-MANAGED",
)  # fmt: skip
SHARED = re.compile(r"=> (/\S+)")
OF_THE_SYSTEM = re.compile(r"(ld-|lib(c|m|dl|rt|pthread|util|resolv|nsl|gcc_s)\.so)")
"""The C library, which must be the node's own."""
LAUNCHER = f"""\
#!/bin/sh
# Made by worker_archive.py: the interpreter beside this file, with the libraries of the archive.
home=$(dirname "$(dirname "$(readlink -f "$0")")")
LD_LIBRARY_PATH="$home/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" exec "$home/bin/{VERSION}" "$@"
"""


def main(archive: Path) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder)
        copy_interpreter(home)
        install_worker(home)
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "w:gz", compresslevel=6) as written:
            for each in sorted(home.iterdir()):
                written.add(each, each.name)
    print(f"{archive}: {archive.stat().st_size / 2**20:.0f} MiB")


def copy_interpreter(home: Path) -> None:
    """Copy the interpreter, its standard library, and the shared libraries of both. It finds them by its own place."""
    (home / "bin").mkdir()
    interpreter = home / "bin" / VERSION
    shutil.copy(Path(sys.base_prefix) / "bin" / VERSION, interpreter)
    launcher = home / "bin" / "python3"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    standard = home / "lib" / VERSION
    shutil.copytree(sysconfig.get_path("stdlib"), standard, ignore=LEFT_OUT)
    for binary in (interpreter, *standard.glob("lib-dynload/*.so")):
        for library in map(Path, SHARED.findall(_output("ldd", binary))):
            if not OF_THE_SYSTEM.match(library.name):
                shutil.copy(library, home / "lib" / library.name)


def install_worker(home: Path) -> None:
    """Install the package and what a worker needs beside Spark."""
    install = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", home / "bin/python3", "--link-mode", "copy")
    _output(*install, "--constraint", REPOSITORY / "constraints.txt", "--group", f"{REPOSITORY}/pyproject.toml:worker-archive")
    _output(*install, "--no-deps", REPOSITORY)


def _output(*command: str | Path) -> str:
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
