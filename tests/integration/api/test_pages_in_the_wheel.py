"""What is installed from the wheel has the pages' templates and files, which are no Python."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


def test_the_wheel_holds_every_template_and_every_file_of_the_pages(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "uv", "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(REPOSITORY)]
    # It fetches the build's own packages, and a registry may keep it waiting.
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    package = REPOSITORY / "airflow_snowpack/api/pages"
    files = {str(path.relative_to(REPOSITORY)) for folder in ("templates", "static") for path in (package / folder).iterdir()}
    assert len(files) >= 12
    assert files <= set(zipfile.ZipFile(wheel).namelist())
