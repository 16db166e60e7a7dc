"""The wheel contains what is no Python module: the templates and files of the pages, and the stubs that name the public names."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


def test_the_wheel_contains_every_template_every_file_of_the_pages_and_every_stub(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "uv", "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(REPOSITORY)]
    # It fetches the build's own packages, and a registry may keep it waiting.
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    package = REPOSITORY / "airflow_snowpack/api/pages"
    files = {str(path.relative_to(REPOSITORY)) for folder in ("templates", "static") for path in (package / folder).iterdir()}
    assert len(files) >= 12
    stubs = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "airflow_snowpack").rglob("*.pyi")}
    assert len(stubs) >= 10
    assert files | stubs <= set(zipfile.ZipFile(wheel).namelist())
