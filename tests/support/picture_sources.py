"""What a picture of the documentation shows depends on: the templates of its page, the files that these load, and the fixtures.

    digest("table")                  # another one when the page of a table may look different
    record(["table"])                # the pictures were just taken
    outdated()                       # the pictures that are older than their sources, or not the recorded ones

``docs/images/sources.json`` has the digests, so that a page cannot change without its picture.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES, SUPPORT, IMAGES = Path("airflow_snowpack/api/pages"), Path("tests/support"), Path("docs/images")
SCHEMES = ("light", "dark")
PICTURE = re.compile(r"images/([\w-]+)-light\.png")
TEMPLATE = re.compile(r'{%\s*(?:extends|import|include)\s+"([\w.]+)"')
IMPORTED = re.compile(r"^\s*from (\w+) import", re.MULTILINE)


def named(root: Path = ROOT) -> list[str]:
    """Return the names of the pictures that the documentation shows."""
    return sorted({name for page in (root / "docs").glob("*.md") for name in PICTURE.findall(page.read_text())})


def digest(name: str, root: Path = ROOT) -> str:
    """Return the digest of the sources of a picture, whose name begins with that of its page's template."""
    templates = root / PAGES / "templates"
    words = name.split("-")
    page = next(f"{'_'.join(words[:n])}.html" for n in (2, 1) if (templates / f"{'_'.join(words[:n])}.html").exists())
    drawn = [*_reached(templates, [page], TEMPLATE), root / PAGES / "charts.py", *(root / PAGES / "static").iterdir()]
    fixtures = _reached(root / SUPPORT, ["pages_screenshots.py"], IMPORTED, ".py")
    content = b"\0".join(part for file in sorted({*drawn, *fixtures}) for part in (file.name.encode(), file.read_bytes()))
    return sha256(content).hexdigest()[:16]


def record(names: Iterable[str], root: Path = ROOT) -> None:
    """Note that the pictures of these names were taken from the sources as they are now."""
    pictures = _recorded(root) | {name: {"sources": digest(name, root), **_pictures(name, root)} for name in names}
    lines = ",\n".join(f' "{name}": {json.dumps(pictures[name])}' for name in sorted(pictures) if name in named(root))
    (root / IMAGES / "sources.json").write_text(f"{{\n{lines}\n}}\n")


def outdated(root: Path = ROOT) -> list[str]:
    """Return the names of the pictures that have to be taken again."""
    recorded = _recorded(root)
    return [name for name in named(root) if recorded.get(name) != {"sources": digest(name, root), **_pictures(name, root)}]


def _recorded(root: Path) -> dict[str, dict[str, str]]:
    file = root / IMAGES / "sources.json"
    found: dict[str, dict[str, str]] = json.loads(file.read_text()) if file.exists() else {}
    return found


def _pictures(name: str, root: Path) -> dict[str, str]:
    files = {scheme: root / IMAGES / f"{name}-{scheme}.png" for scheme in SCHEMES}
    return {scheme: sha256(file.read_bytes()).hexdigest()[:16] for scheme, file in files.items() if file.exists()}


def _reached(folder: Path, names: list[str], refers: re.Pattern[str], suffix: str = "") -> set[Path]:
    """Return the files of a folder with these names, and those to which they refer."""
    found: set[Path] = set()
    while names:
        file = folder / names.pop()
        if file not in found and file.exists():
            found.add(file)
            names += [f"{name}{suffix}" for name in refers.findall(file.read_text())]
    return found
