"""Runs an entry in a container until it is killed: ``python run_container.py OPTIONS IMAGE FOLDER COMMAND…``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from entry_world import docker_runner, identity, invocation

if __name__ == "__main__":
    options, image, folder, *command = sys.argv[1:]
    runner = docker_runner(image, identity(), json.loads(options), Path(folder).parent)
    runner.run(invocation(Path(folder), *command), lambda line: print(line.text, flush=True))
