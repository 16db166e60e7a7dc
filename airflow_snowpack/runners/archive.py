"""The program of a module entry as one file, which runs where this package is not installed.

    (folder / PROGRAM).write_bytes(program())               # python entry_process.pyz FOLDER

The archive contains the modules of this package that need no other one, under another package name: an image with another version
of this package uses them, too.
"""

from __future__ import annotations

import io
import zipfile
from functools import lru_cache
from pathlib import Path

PROGRAM = "entry_process.pyz"
PACKAGE, OWN_NAME = Path(__file__).parents[1], "snowpack_entry"
MODULES = (
    "arrow.values",
    "errors",
    "interim.errors",
    "interim.forms",
    "interim.frames.pandas_rows",
    "interim.frames.schemas",
    "decorators.parameters",
    "runners.entry_process",
    "runners.values",
)
MAIN = f"""\
import sys
from pathlib import Path

from {OWN_NAME}.runners.entry_process import main

sys.exit(main(Path(sys.argv[1])))
"""


@lru_cache(maxsize=1)
def program() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("__main__.py", MAIN)
        # All packages above the modules; parents[-1] of a path is the folder itself.
        packages = {parent for name in MODULES for parent in Path(OWN_NAME, *name.split(".")).parents[:-1]}
        for package in sorted(packages):
            archive.writestr(f"{package.as_posix()}/__init__.py", "")
        for name in MODULES:
            path = f"{name.replace('.', '/')}.py"
            source = (PACKAGE / path).read_text(encoding="utf-8")
            archive.writestr(f"{OWN_NAME}/{path}", source.replace(f"{PACKAGE.name}.", f"{OWN_NAME}."))
    return content.getvalue()
