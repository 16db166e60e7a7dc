"""Takes the pictures of the pages for the documentation: ``make images``.
Names choose some of them; without any, those are taken whose page has changed. ``python tests/support/pages_screenshots.py FOLDER
--width=500`` shows all pages on a small screen, in another folder than that of the documentation.

It builds an installation with a day of history in a temporary folder, serves it, and opens it in Chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path

from pages_world import World
from picture_sources import IMAGES, ROOT, outdated, record

ARGUMENTS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync"
WIDTH, HEIGHT = 1280, 800
TALL = {"table": 1500, "queue": 1060}
"""Pages whose picture shows more of them."""


def addresses(world: World) -> dict[str, str]:
    """Return the address of each picture by its name."""
    from builds_world import SECOND
    from committed_table import COMMITTED
    from made_images import failed_key

    made = world.made
    return {
        "home": "/ui/",
        "tables": "/ui/tables",
        "table": "/ui/tables/payments/refunds",
        "table-metadata": f"/ui/tables/{COMMITTED.replace('.', '/')}/metadata",
        "jobs": "/ui/jobs?period=24h",
        "job-completed": f"/ui/jobs/{made['done'].job_id}",
        "job-running": f"/ui/jobs/{made['running'].job_id}",
        "job-failed": f"/ui/jobs/{made['failed'].job_id}",
        "job-dry-run": f"/ui/jobs/{made['dry'].job_id}",
        "locks": "/ui/locks",
        "queue": "/ui/queue",
        "audit": "/ui/audit",
        "schedules": "/ui/schedules",
        "schedule": "/ui/schedules/page_views_in_bulk",
        "pending": "/ui/pending",
        "events": "/ui/events",
        "lineage": "/ui/lineage?table=flights.report",
        "runs": "/ui/runs",
        "interim": "/ui/interim",
        "images": "/ui/images",
        "image": f"/ui/images/{failed_key()}",
        "builds": "/ui/builds",
        "build": "/ui/builds/flights",
        "build-run": f"/ui/builds/flights/runs/{SECOND}",
    }


def serve(world: World) -> str:
    """Serve the installation in a thread, and return its address."""
    import uvicorn
    from pages_world import SomebodyIs

    from airflow_snowpack.api import build_app

    app = build_app(lambda: world.services, SomebodyIs("vera"))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


def take(folder: Path, names: list[str], width: int = WIDTH) -> None:
    """Write ``<name>-light.png`` and ``<name>-dark.png``."""
    from builds_world import make_builds
    from committed_table import make_commits
    from health_pages_world import make_month
    from interim_world import make_interim
    from lineage_world import make_lineage
    from made_images import make_images
    from pages_world import build_world
    from playwright.sync_api import sync_playwright
    from schedules_world import build_schedules, register_runs

    from airflow_snowpack.store import utc_now

    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        world = build_world(Path(home))
        build_schedules(world)
        make_lineage(world.store, world.clock())
        make_interim(world.store)
        make_builds(world.store, Path(home))
        register_runs(world)
        world.clock.moment = utc_now() - timedelta(minutes=130)
        make_images(world.store, world.clock.move)
        world.clock.let_go()
        make_month(world)
        make_commits(world.inventory.catalog(), world.clock())
        world.inventory.refresh()
        base = serve(world)
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS.split())
        for scheme in ("light", "dark"):
            context = chromium.new_context(base_url=base, color_scheme=scheme, reduced_motion="reduce")
            page = context.new_page()
            for name, address in addresses(world).items():
                if names and name not in names:
                    continue
                page.set_viewport_size({"width": width, "height": TALL.get(name, HEIGHT)})
                page.goto(address)
                page.wait_for_timeout(300)
                page.screenshot(path=folder / f"{name}-{scheme}.png")
        chromium.close()


if __name__ == "__main__":
    into, chosen = Path(sys.argv[1]), [name for name in sys.argv[2:] if not name.startswith("--")]
    wide = next((int(option.removeprefix("--width=")) for option in sys.argv[2:] if option.startswith("--width=")), WIDTH)
    documented = into.resolve() == (ROOT / IMAGES).resolve()
    if documented and not (chosen := chosen or outdated()):
        sys.exit("No page has changed.")
    take(into, chosen, wide)
    if documented:
        record(chosen)
