"""Stored health of the tables of the pages, for their tests and screenshots.

keep(world, "analytics.page_views", sick_health())
make_month(world)
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from made_health import MIB, made_health, made_partition, sick_health
from pages_world import World

from airflow_snowpack.iceberg import TableHealth
from airflow_snowpack.iceberg.health import HealthBounds, SnapshotLog, SpecField

DAYS = 30


def keep(world: World, dotted: str, health: TableHealth) -> None:
    """Store health of a table as read now."""
    world.installation.health_records.put(world.table(dotted), replace(health, table=dotted, read_at=world.clock()))


def make_month(world: World) -> None:
    """A month of one table that was compacted twice, and what was last read of the others. The clock has to be settable."""
    now = world.clock()
    for day in range(DAYS, -1, -1):
        world.clock.moment = now - timedelta(days=day, minutes=12)
        since = day if day < 9 else day - 9 if day < 20 else day - 20
        keep(world, "payments.refunds", grown(DAYS - day, 22 - 2 * since if day else 21, world.clock()))
    for place, dotted in enumerate(("analytics.sessions", "logistics.shipments", "logistics.routes", "analytics.page_views")):
        keep(world, dotted, sick_health(partitions=2 + place, small=(3, 40, 160, 520)[place]))
    for dotted in ("analytics.funnels_daily", "logistics.stock_levels", "marketing.campaigns", "payments.transactions"):
        keep(world, dotted, made_health())
    reason = "The manifest s3://lake/marketing/email_clicks/metadata/8f1c-m0.avro does not exist."
    world.installation.health_records.unreadable(world.table("marketing.email_clicks"), "", reason)
    world.clock.let_go()


def grown(day: int, small: int, now: datetime) -> TableHealth:
    """Return the health of a table of twelve months in three regions, with small files and deletes in the last months."""
    many = {("eu", 12): 9, ("eu", 11): 5, ("us", 12): 7, ("us", 11): 2, ("us", 10): 1, ("apac", 12): 3, ("apac", 9): 1}
    parts = [
        made_partition(
            values=(region, month),
            label=f"region={region}/month={month}",
            data_files=12 + (few := max(small, 1) * many.get((region, month), 0)),
            small_files=few,
            small_bytes=few * 14 * MIB,
            large_files=month % 2 if region == "us" else 0,
            with_deletes_files=7 if (region, month) == ("us", 11) else 0,
            position_delete_files=7 if (region, month) == ("us", 11) else 0,
            bytes=(6 + month // 2 + day // 8) * 1024 * MIB,
            records=1_400_000,
            newest_at=now - timedelta(days=(12 - month) * 30, hours=3),
        )
        for month in range(12, 0, -1)
        for region in ("apac", "eu", "us")
    ]
    files, few = sum(each.data_files for each in parts), sum(each.small_files for each in parts)
    committed = [round((now - timedelta(hours=8 * n)).timestamp() * 1000) for n in range(60, 0, -1)]
    return made_health(
        data_files=files,
        small_files=few,
        small_bytes=sum(each.small_bytes for each in parts),
        large_files=sum(each.large_files for each in parts),
        with_deletes_files=7,
        position_delete_files=7,
        delete_bytes=3 * MIB,
        bytes=sum(each.bytes for each in parts),
        records=sum(each.records for each in parts),
        data_manifests=38 + day,
        delete_manifests=2,
        manifests_bytes=21 * MIB,
        bounds=HealthBounds(),
        location="s3://lake/payments/refunds",
        snapshots=SnapshotLog(tuple(range(60)), (None, *range(59)), tuple(committed), ("append",) * 60),
        file_sizes=(few // 9, few // 5, few // 4, few // 5, few - few // 9 - 2 * (few // 5) - few // 4, 0, 3, 5, 8, 320, 66, 6),
        skew=1.4,
        partition_count=36,
        partitions=tuple(sorted(parts, key=lambda each: -each.small_files)),
        specs={0: (SpecField("region", "string", "identity", "region"), SpecField("month", "long", "identity", "month"))},
    )
