BEGIN TRANSACTION;
CREATE TABLE action_records (
    table_key TEXT NOT NULL,
    action TEXT NOT NULL,
    last_run_at DATETIME NOT NULL,
    last_success_at DATETIME,
    failures INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    cost_factor FLOAT NOT NULL,
    seconds_factor FLOAT NOT NULL,
    files_factor FLOAT NOT NULL,
    CONSTRAINT pk_action_records PRIMARY KEY (table_key, action)
);
INSERT INTO "action_records" VALUES('lake.payments.transactions','rewrite_data_files','2026-11-27 15:25:39.569758',NULL,1,0,1.0,1.0,1.0);
INSERT INTO "action_records" VALUES('lake.analytics.page_views','rewrite_data_files','2026-11-27 15:53:51.969758','2026-11-27 15:53:51.969758',0,0,1.0,1.0,1.0);
INSERT INTO "action_records" VALUES('lake.analytics.page_views','rewrite_position_delete_files','2026-11-27 15:53:51.969758','2026-11-27 15:53:51.969758',0,0,1.0,1.0,1.0);
INSERT INTO "action_records" VALUES('lake.analytics.page_views','rewrite_manifests','2026-11-27 15:53:51.969758','2026-11-27 15:53:51.969758',0,0,1.0,1.0,1.0);
INSERT INTO "action_records" VALUES('lake.analytics.page_views','expire_snapshots','2026-11-27 15:53:51.969758','2026-11-27 15:53:51.969758',0,0,1.0,1.0,1.0);
INSERT INTO "action_records" VALUES('lake.analytics.page_views','remove_orphan_files','2026-11-27 15:53:51.969758','2026-11-27 15:53:51.969758',0,0,1.0,1.0,1.0);
CREATE TABLE audit_trail (
    id INTEGER NOT NULL,
    at DATETIME NOT NULL,
    actor TEXT NOT NULL,
    via TEXT NOT NULL,
    change TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail JSON NOT NULL,
    CONSTRAINT pk_audit_trail PRIMARY KEY (id)
);
INSERT INTO "audit_trail" VALUES(1,'2026-11-27 15:16:47.569758','jana','api','submit','115a6eee62b146cd81ff671cac7fda11','{"table": "lake.payments.transactions", "actions": ["rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]}');
INSERT INTO "audit_trail" VALUES(2,'2026-11-27 16:20:47.569758','anton','api','submit','cc4f2fcf6d5149f68a258e49a211f74d','{"table": "lake.marketing.campaigns", "actions": ["rewrite_data_files", "expire_snapshots"]}');
INSERT INTO "audit_trail" VALUES(3,'2026-11-27 16:21:47.569758','anton','page','cancel','cc4f2fcf6d5149f68a258e49a211f74d','{"table": "lake.marketing.campaigns"}');
INSERT INTO "audit_trail" VALUES(4,'2026-11-27 16:25:47.569758','jana','page','dry_run','d9dc51d5ebcc405fae1d61ed70816854','{"table": "lake.payments.refunds", "actions": ["rewrite_data_files", "expire_snapshots"]}');
INSERT INTO "audit_trail" VALUES(5,'2026-11-27 16:37:47.569758','jana','api','submit','0aca12f48a6444678d48991a72d84472','{"table": "lake.analytics.events_raw", "actions": ["rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]}');
INSERT INTO "audit_trail" VALUES(6,'2026-11-27 16:49:47.569758','anton','api','submit','ab465b3c32184e02a53deb2f14c948f3','{"table": "lake.logistics.routes", "actions": ["rewrite_data_files", "expire_snapshots"]}');
INSERT INTO "audit_trail" VALUES(7,'2026-11-27 16:49:54.569758','anton','api','submit','8ac7f4eb2f354dd3ac3a9cbf366a0d51','{"table": "lake.analytics.sessions", "actions": ["rewrite_data_files", "expire_snapshots"]}');
INSERT INTO "audit_trail" VALUES(8,'2026-11-27 16:50:01.569758','anton','api','submit','773748e4bb6f43de8a33e47c053f5262','{"table": "lake.marketing.email_clicks", "actions": ["rewrite_data_files", "expire_snapshots"]}');
INSERT INTO "audit_trail" VALUES(9,'2026-11-27 13:51:47.633646','jana','api','create_schedule','schedule:page_views_in_bulk','{"enabled": true}');
INSERT INTO "audit_trail" VALUES(10,'2026-11-27 13:51:47.633646','jana','api','create_schedule','schedule:page_views_report','{"enabled": true}');
INSERT INTO "audit_trail" VALUES(11,'2026-11-27 13:51:47.633646','jana','api','create_schedule','schedule:sessions_nightly','{"enabled": true}');
INSERT INTO "audit_trail" VALUES(12,'2026-11-27 13:51:47.633646','jana','api','create_schedule','schedule:ledger_urgent','{"enabled": true}');
INSERT INTO "audit_trail" VALUES(13,'2026-11-27 13:51:47.633646','jana','api','create_schedule','schedule:stock_levels','{"enabled": true}');
INSERT INTO "audit_trail" VALUES(14,'2026-11-27 13:51:47.633646','jana','api','create_schedule','schedule:campaigns','{"enabled": true}');
INSERT INTO "audit_trail" VALUES(15,'2026-11-27 13:51:47.633646','jana','api','create_schedule','schedule:email_clicks','{"enabled": false}');
INSERT INTO "audit_trail" VALUES(16,'2026-11-27 13:51:47.633646','jana','api','create_schedule','schedule:newer_than_this','{"enabled": true}');
INSERT INTO "audit_trail" VALUES(17,'2026-11-27 16:40:47.633646','shop','api','send_event','event:shipment','{"event_id": 16, "amounts": {"records": 900}}');
CREATE TABLE build_datasets (
    dataset TEXT NOT NULL,
    url TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    runs INTEGER NOT NULL,
    drawn BIGINT NOT NULL,
    publication BIGINT,
    current_run TEXT,
    moved_at DATETIME,
    newest_as_of DATETIME,
    newest_sequence INTEGER,
    visible_at DATETIME NOT NULL,
    claimed_at DATETIME,
    claimed_by TEXT,
    attempt_id TEXT,
    attempt_count INTEGER NOT NULL,
    CONSTRAINT pk_build_datasets PRIMARY KEY (dataset),
    CONSTRAINT uq_build_datasets_url UNIQUE (url)
);
CREATE TABLE build_publications (
    dataset TEXT NOT NULL,
    number BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    manifest TEXT NOT NULL,
    checksum TEXT NOT NULL,
    previous TEXT,
    previous_checksum TEXT,
    at DATETIME NOT NULL,
    "by" TEXT,
    done_at DATETIME,
    CONSTRAINT pk_build_publications PRIMARY KEY (dataset, number)
);
CREATE TABLE build_runs (
    build_id TEXT NOT NULL,
    dataset TEXT NOT NULL,
    run_id TEXT NOT NULL,
    as_of DATETIME NOT NULL,
    sequence INTEGER NOT NULL,
    status TEXT NOT NULL,
    owner TEXT,
    started_at DATETIME NOT NULL,
    finished_at DATETIME,
    num_shards INTEGER NOT NULL,
    rows BIGINT,
    bytes BIGINT,
    manifest TEXT,
    checksum TEXT,
    error TEXT,
    cleanup_at DATETIME,
    deleted_at DATETIME,
    visible_at DATETIME NOT NULL,
    claimed_at DATETIME,
    claimed_by TEXT,
    attempt_id TEXT,
    attempt_count INTEGER NOT NULL,
    CONSTRAINT pk_build_runs PRIMARY KEY (build_id)
);
CREATE TABLE considered (
    consumer TEXT NOT NULL,
    owner TEXT NOT NULL,
    since JSON NOT NULL,
    upto JSON NOT NULL,
    changed_at DATETIME NOT NULL,
    CONSTRAINT pk_considered PRIMARY KEY (consumer)
);
CREATE TABLE counters (
    name TEXT NOT NULL,
    labels TEXT NOT NULL,
    slot INTEGER NOT NULL,
    value FLOAT NOT NULL,
    CONSTRAINT pk_counters PRIMARY KEY (name, labels, slot)
);
INSERT INTO "counters" VALUES('actions','{"action": "rewrite_data_files", "outcome": "failed"}',2,1.0);
INSERT INTO "counters" VALUES('job_run_seconds','{"le": "900"}',2,1.0);
INSERT INTO "counters" VALUES('job_run_seconds_sum','{}',2,412.0);
INSERT INTO "counters" VALUES('job_wait_seconds','{"le": "300"}',2,1.0);
INSERT INTO "counters" VALUES('job_wait_seconds_sum','{}',2,120.0);
INSERT INTO "counters" VALUES('jobs_ended','{"status": "failed"}',2,1.0);
INSERT INTO "counters" VALUES('actions','{"action": "expire_snapshots", "outcome": "succeeded"}',4,1.0);
INSERT INTO "counters" VALUES('actions','{"action": "remove_orphan_files", "outcome": "succeeded"}',4,1.0);
INSERT INTO "counters" VALUES('actions','{"action": "rewrite_data_files", "outcome": "succeeded"}',4,1.0);
INSERT INTO "counters" VALUES('actions','{"action": "rewrite_manifests", "outcome": "succeeded"}',4,1.0);
INSERT INTO "counters" VALUES('actions','{"action": "rewrite_position_delete_files", "outcome": "succeeded"}',4,1.0);
INSERT INTO "counters" VALUES('bytes_rewritten','{"action": "rewrite_data_files"}',4,48549068800.0);
INSERT INTO "counters" VALUES('bytes_rewritten','{"action": "rewrite_position_delete_files"}',4,39845888.0);
INSERT INTO "counters" VALUES('files_removed','{"action": "expire_snapshots"}',4,2408.0);
INSERT INTO "counters" VALUES('files_removed','{"action": "remove_orphan_files"}',4,17.0);
INSERT INTO "counters" VALUES('files_removed','{"action": "rewrite_data_files"}',4,1284.0);
INSERT INTO "counters" VALUES('files_removed','{"action": "rewrite_manifests"}',4,64.0);
INSERT INTO "counters" VALUES('files_removed','{"action": "rewrite_position_delete_files"}',4,212.0);
INSERT INTO "counters" VALUES('job_run_seconds','{"le": "900"}',4,1.0);
INSERT INTO "counters" VALUES('job_run_seconds_sum','{}',4,676.4);
INSERT INTO "counters" VALUES('job_wait_seconds','{"le": "60"}',4,1.0);
INSERT INTO "counters" VALUES('job_wait_seconds_sum','{}',4,48.0);
INSERT INTO "counters" VALUES('jobs_ended','{"status": "completed"}',4,1.0);
INSERT INTO "counters" VALUES('snapshots_expired','{"action": "expire_snapshots"}',4,362.0);
INSERT INTO "counters" VALUES('jobs_ended','{"status": "cancelled"}',2,1.0);
INSERT INTO "counters" VALUES('evaluations','{"state": "pending_launch"}',0,1.0);
INSERT INTO "counters" VALUES('launch_seconds','{"le": "0.1"}',6,1.0);
INSERT INTO "counters" VALUES('launch_seconds_sum','{}',6,0.0);
INSERT INTO "counters" VALUES('evaluations','{"state": "pending_launch"}',1,2.0);
INSERT INTO "counters" VALUES('launch_seconds','{"le": "0.1"}',2,2.0);
INSERT INTO "counters" VALUES('launch_seconds_sum','{}',2,0.0);
INSERT INTO "counters" VALUES('evaluations','{"state": "pending_launch"}',6,2.0);
INSERT INTO "counters" VALUES('evaluations','{"state": "pending_launch"}',3,1.0);
INSERT INTO "counters" VALUES('launch_seconds','{"le": "0.1"}',7,1.0);
INSERT INTO "counters" VALUES('launch_seconds_sum','{}',7,0.0);
INSERT INTO "counters" VALUES('evaluations','{"state": "pending_trigger"}',3,2.0);
INSERT INTO "counters" VALUES('evaluations','{"state": "pending_trigger"}',7,1.0);
INSERT INTO "counters" VALUES('launch_seconds','{"le": "0.1"}',0,1.0);
INSERT INTO "counters" VALUES('launch_seconds_sum','{}',0,0.0);
INSERT INTO "counters" VALUES('evaluations','{"state": "pending_trigger"}',6,1.0);
INSERT INTO "counters" VALUES('evaluations','{"state": "pending_constraint"}',5,2.0);
INSERT INTO "counters" VALUES('evaluations','{"state": "pending_constraint"}',4,1.0);
CREATE TABLE dag_successes (
    dag_id TEXT NOT NULL,
    ended_at DATETIME NOT NULL,
    run_id TEXT NOT NULL,
    CONSTRAINT pk_dag_successes PRIMARY KEY (dag_id)
);
INSERT INTO "dag_successes" VALUES('maintain_page_views','2026-11-27 14:52:47.633646','snowpack__page_views_in_bulk__20261127T144947__ec095f233097');
INSERT INTO "dag_successes" VALUES('report_page_views','2026-11-27 15:35:47.633646','snowpack__page_views_report__20261127T145247__5535ad0d09fc');
CREATE TABLE event_cursors (
    name TEXT NOT NULL,
    position BIGINT NOT NULL,
    CONSTRAINT pk_event_cursors PRIMARY KEY (name)
);
INSERT INTO "event_cursors" VALUES('subscriber',16);
CREATE TABLE events (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    "key" TEXT NOT NULL,
    source_id TEXT,
    at DATETIME NOT NULL,
    recorded_at DATETIME NOT NULL,
    amounts JSON NOT NULL,
    detail JSON NOT NULL,
    CONSTRAINT uq_events_source_id UNIQUE (source_id)
);
INSERT INTO "events" VALUES(1,'table:lake.analytics.page_views','once:a7699dd3425d4b5d93e4ee657eca3026','2026-11-27 13:56:47.633646','2026-11-27 13:56:47.633646','{"partitions": 5, "bytes": 12000000000}','{}');
INSERT INTO "events" VALUES(2,'run:maintain_page_views:success','run:maintain_page_views:snowpack__page_views_in_bulk__20261127T135647__cf5e4a9bb653:2026-11-27T13:59:47.633646+00:00:success','2026-11-27 13:59:47.633646','2026-11-27 13:59:47.633646','{}','{"dag_id": "maintain_page_views", "run_id": "snowpack__page_views_in_bulk__20261127T135647__cf5e4a9bb653"}');
INSERT INTO "events" VALUES(3,'table:lake.analytics.page_views','once:782a9909499b454c8fc7c7c89f3846ec','2026-11-27 14:49:47.633646','2026-11-27 14:49:47.633646','{"partitions": 5, "bytes": 64000000000}','{}');
INSERT INTO "events" VALUES(4,'clock:campaigns:0','tick:434cf5417a8a49b3ad7bc2f70722f6b6:0:2026-11-27T14:30:00+00:00','2026-11-27 14:30:00.000000','2026-11-27 14:49:47.633646','{}','{"ticks": ["2026-11-27T14:00:00+00:00", "2026-11-27T14:30:00+00:00"]}');
INSERT INTO "events" VALUES(5,'run:maintain_page_views:success','run:maintain_page_views:snowpack__page_views_in_bulk__20261127T144947__ec095f233097:2026-11-27T14:52:47.633646+00:00:success','2026-11-27 14:52:47.633646','2026-11-27 14:52:47.633646','{}','{"dag_id": "maintain_page_views", "run_id": "snowpack__page_views_in_bulk__20261127T144947__ec095f233097"}');
INSERT INTO "events" VALUES(6,'run:report_page_views:success','run:report_page_views:snowpack__page_views_report__20261127T135947__2d01580ea47b:2026-11-27T14:52:47.633646+00:00:success','2026-11-27 14:52:47.633646','2026-11-27 14:52:47.633646','{}','{"dag_id": "report_page_views", "run_id": "snowpack__page_views_report__20261127T135947__2d01580ea47b"}');
INSERT INTO "events" VALUES(7,'table:lake.analytics.page_views','once:e7562dbcc0f242d4bb5d56f9cb04a45b','2026-11-27 15:32:47.633646','2026-11-27 15:32:47.633646','{"partitions": 2, "bytes": 18000000000}','{}');
INSERT INTO "events" VALUES(8,'clock:campaigns:0','tick:434cf5417a8a49b3ad7bc2f70722f6b6:0:2026-11-27T15:30:00+00:00','2026-11-27 15:30:00.000000','2026-11-27 15:32:47.633646','{}','{"ticks": ["2026-11-27T15:00:00+00:00", "2026-11-27T15:30:00+00:00"]}');
INSERT INTO "events" VALUES(9,'run:report_page_views:success','run:report_page_views:snowpack__page_views_report__20261127T145247__5535ad0d09fc:2026-11-27T15:35:47.633646+00:00:success','2026-11-27 15:35:47.633646','2026-11-27 15:35:47.633646','{}','{"dag_id": "report_page_views", "run_id": "snowpack__page_views_report__20261127T145247__5535ad0d09fc"}');
INSERT INTO "events" VALUES(10,'table:lake.analytics.page_views','once:91fd1aa69f24438cb1bd36f2c9c77969','2026-11-27 16:37:47.633646','2026-11-27 16:37:47.633646','{"partitions": 1, "bytes": 23000000000}','{}');
INSERT INTO "events" VALUES(11,'clock:campaigns:0','tick:434cf5417a8a49b3ad7bc2f70722f6b6:0:2026-11-27T16:30:00+00:00','2026-11-27 16:30:00.000000','2026-11-27 16:37:47.633646','{}','{"ticks": ["2026-11-27T16:00:00+00:00", "2026-11-27T16:30:00+00:00"]}');
INSERT INTO "events" VALUES(12,'table:lake.payments.transactions','once:f9869fdf2e184f94a83342077aee37dc','2026-11-27 16:40:47.633646','2026-11-27 16:40:47.633646','{"partitions": 1, "files": 3, "records": 26666666, "bytes": 2400000000}','{"table": "payments.transactions", "operation": "append", "partitions": ["day=2026-11-27"], "expired_before": 2}');
INSERT INTO "events" VALUES(13,'table:lake.payments.refunds','once:6706d39d979247f49fa7e4edc5bc5fc0','2026-11-27 16:40:47.633646','2026-11-27 16:40:47.633646','{"partitions": 1, "files": 3, "records": 3333333, "bytes": 300000000}','{"table": "payments.refunds", "operation": "append", "partitions": ["day=2026-11-27"]}');
INSERT INTO "events" VALUES(14,'table:lake.analytics.sessions','once:43e4c488259f458d86fdc7455c35db04','2026-11-27 16:40:47.633646','2026-11-27 16:40:47.633646','{"partitions": 4, "files": 12, "records": 101111111, "bytes": 9100000000}','{"table": "analytics.sessions", "operation": "append", "partitions": ["day=2026-11-27", "day=2026-11-26", "day=2026-11-25", "day=2026-11-24"]}');
INSERT INTO "events" VALUES(15,'table:lake.logistics.routes','once:dc1d9a33ed534d0db4d0c5250be4e0fd','2026-11-27 16:40:47.633646','2026-11-27 16:40:47.633646','{"partitions": 1, "files": 3, "records": 11111, "bytes": 1000000}','{"table": "logistics.routes", "operation": "append", "partitions": ["day=2026-11-27"]}');
INSERT INTO "events" VALUES(16,'event:shipment','sent:shipment:2026-11-21/17','2026-11-27 16:40:47.633646','2026-11-27 16:40:47.633646','{"records": 900}','{"warehouse": "north"}');
CREATE TABLE fleet_entries (
    pass_id TEXT NOT NULL,
    table_key TEXT NOT NULL,
    catalog TEXT NOT NULL,
    catalog_id TEXT NOT NULL,
    database_name TEXT NOT NULL,
    table_name TEXT NOT NULL,
    place INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    "plan" JSON,
    gb_hours FLOAT NOT NULL,
    bytes BIGINT NOT NULL,
    seconds FLOAT NOT NULL,
    deadline DATETIME,
    passes_waited INTEGER NOT NULL,
    job_id TEXT,
    spent_gb_hours FLOAT,
    spent_bytes BIGINT,
    spent_seconds FLOAT,
    removed BIGINT,
    ended_at DATETIME,
    CONSTRAINT pk_fleet_entries PRIMARY KEY (pass_id, table_key)
);
CREATE TABLE fleet_passes (
    pass_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    catalog TEXT NOT NULL,
    catalog_id TEXT NOT NULL,
    state TEXT NOT NULL,
    budget JSON NOT NULL,
    workers INTEGER NOT NULL,
    started_at DATETIME NOT NULL,
    planned_at DATETIME,
    ended_at DATETIME,
    counts JSON NOT NULL,
    report JSON,
    visible_at DATETIME NOT NULL,
    claimed_at DATETIME,
    claimed_by TEXT,
    attempt_id TEXT,
    attempt_count INTEGER NOT NULL,
    CONSTRAINT pk_fleet_passes PRIMARY KEY (pass_id)
);
CREATE TABLE fleet_tables (
    table_key TEXT NOT NULL,
    catalog TEXT NOT NULL,
    catalog_id TEXT NOT NULL,
    metadata_location TEXT,
    planned_at DATETIME NOT NULL,
    policy TEXT NOT NULL,
    needs_work BOOLEAN NOT NULL,
    reconsider_at DATETIME,
    passes_waited INTEGER NOT NULL,
    held_since DATETIME,
    CONSTRAINT pk_fleet_tables PRIMARY KEY (table_key)
);
CREATE TABLE gated_runs (
    dag_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    task TEXT NOT NULL,
    constraints JSON NOT NULL,
    group_names JSON NOT NULL,
    priority INTEGER DEFAULT '0' NOT NULL,
    state TEXT NOT NULL,
    arrived_at DATETIME NOT NULL,
    evaluated_at DATETIME NOT NULL,
    seen_at DATETIME NOT NULL,
    not_before DATETIME,
    waits_for TEXT,
    reasons JSON NOT NULL,
    passed_at DATETIME,
    ended_at DATETIME,
    CONSTRAINT pk_gated_runs PRIMARY KEY (dag_id, run_id, task)
);
CREATE TABLE idempotency_keys (
    actor TEXT NOT NULL,
    "key" TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    job_id TEXT NOT NULL,
    at DATETIME NOT NULL,
    CONSTRAINT pk_idempotency_keys PRIMARY KEY (actor, "key")
);
CREATE TABLE image_attempts (
    attempt_id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    number INTEGER NOT NULL,
    holder TEXT NOT NULL,
    started_at DATETIME NOT NULL,
    ended_at DATETIME,
    outcome TEXT NOT NULL,
    error TEXT,
    CONSTRAINT pk_image_attempts PRIMARY KEY (attempt_id)
);
CREATE TABLE image_builds (
    "key" TEXT NOT NULL,
    remote TEXT NOT NULL,
    revision TEXT NOT NULL,
    commit_hash TEXT NOT NULL,
    dockerfile TEXT NOT NULL,
    build_args JSON NOT NULL,
    platform TEXT NOT NULL,
    place TEXT NOT NULL,
    tag TEXT NOT NULL,
    state TEXT NOT NULL,
    reference TEXT,
    digest TEXT,
    requested_at DATETIME NOT NULL,
    started_at DATETIME,
    finished_at DATETIME,
    used_at DATETIME NOT NULL,
    error TEXT,
    log TEXT NOT NULL,
    visible_at DATETIME NOT NULL,
    claimed_at DATETIME,
    claimed_by TEXT,
    attempt_id TEXT,
    attempt_count INTEGER NOT NULL,
    CONSTRAINT pk_image_builds PRIMARY KEY ("key")
);
CREATE TABLE image_waits (
    "key" TEXT NOT NULL,
    task TEXT NOT NULL,
    since DATETIME NOT NULL,
    CONSTRAINT pk_image_waits PRIMARY KEY ("key", task)
);
CREATE TABLE interim_names (
    name TEXT NOT NULL,
    run_key TEXT NOT NULL,
    table_id TEXT NOT NULL,
    moved_at DATETIME NOT NULL,
    CONSTRAINT pk_interim_names PRIMARY KEY (name, run_key)
);
CREATE TABLE interim_pins (
    table_id TEXT NOT NULL,
    run_key TEXT NOT NULL,
    task_id TEXT NOT NULL,
    asked_by TEXT,
    CONSTRAINT pk_interim_pins PRIMARY KEY (table_id, run_key, task_id)
);
CREATE TABLE interim_refs (
    reading_id TEXT NOT NULL,
    table_id TEXT NOT NULL,
    run_key TEXT NOT NULL,
    task_id TEXT NOT NULL,
    map_index INTEGER NOT NULL,
    holder TEXT NOT NULL,
    taken_at DATETIME NOT NULL,
    lease_until DATETIME NOT NULL,
    CONSTRAINT pk_interim_refs PRIMARY KEY (reading_id, table_id)
);
CREATE TABLE interim_runs (
    run_key TEXT NOT NULL,
    dag_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    check_at DATETIME,
    checked_at DATETIME,
    looks INTEGER NOT NULL,
    touches BIGINT NOT NULL,
    CONSTRAINT pk_interim_runs PRIMARY KEY (run_key)
);
CREATE TABLE interim_slots (
    run_key TEXT NOT NULL,
    task_id TEXT NOT NULL,
    map_index INTEGER NOT NULL,
    output TEXT NOT NULL,
    try_number INTEGER NOT NULL,
    table_id TEXT NOT NULL,
    started_at DATETIME,
    CONSTRAINT pk_interim_slots PRIMARY KEY (run_key, task_id, map_index, output)
);
CREATE TABLE interim_tables (
    table_id TEXT NOT NULL,
    catalog TEXT NOT NULL,
    database_name TEXT NOT NULL,
    table_name TEXT NOT NULL,
    run_key TEXT NOT NULL,
    dag_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    map_index INTEGER NOT NULL,
    output TEXT NOT NULL,
    try_number INTEGER NOT NULL,
    state TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    ready_at DATETIME,
    snapshot_id BIGINT,
    rows BIGINT,
    location TEXT,
    preservation TEXT NOT NULL,
    name TEXT,
    scope TEXT,
    expires_at DATETIME,
    error TEXT,
    visible_at DATETIME NOT NULL,
    claimed_at DATETIME,
    claimed_by TEXT,
    attempt_id TEXT,
    attempt_count INTEGER NOT NULL,
    CONSTRAINT pk_interim_tables PRIMARY KEY (table_id),
    CONSTRAINT uq_interim_tables_table_name UNIQUE (table_name)
);
CREATE TABLE inventory_refreshes (
    catalog TEXT NOT NULL,
    tried_at DATETIME NOT NULL,
    refreshed_at DATETIME,
    problem TEXT,
    left_out JSON,
    CONSTRAINT pk_inventory_refreshes PRIMARY KEY (catalog)
);
INSERT INTO "inventory_refreshes" VALUES('lake','2026-11-27 16:51:47.569758','2026-11-27 16:51:47.569758',NULL,NULL);
CREATE TABLE inventory_tables (
    table_key TEXT NOT NULL,
    catalog TEXT NOT NULL,
    database_name TEXT NOT NULL,
    table_name TEXT NOT NULL,
    first_seen_at DATETIME NOT NULL,
    CONSTRAINT pk_inventory_tables PRIMARY KEY (table_key)
);
INSERT INTO "inventory_tables" VALUES('lake.logistics.routes','lake','logistics','routes','2026-11-27 14:51:47.070180');
INSERT INTO "inventory_tables" VALUES('lake.logistics.shipments','lake','logistics','shipments','2026-11-27 14:51:47.070180');
INSERT INTO "inventory_tables" VALUES('lake.logistics.stock_levels','lake','logistics','stock_levels','2026-11-27 14:51:47.070180');
INSERT INTO "inventory_tables" VALUES('lake.analytics.events_raw','lake','analytics','events_raw','2026-11-27 14:51:47.070180');
INSERT INTO "inventory_tables" VALUES('lake.analytics.funnels_daily','lake','analytics','funnels_daily','2026-11-27 14:51:47.070180');
INSERT INTO "inventory_tables" VALUES('lake.analytics.page_views','lake','analytics','page_views','2026-11-27 14:51:47.070180');
INSERT INTO "inventory_tables" VALUES('lake.analytics.sessions','lake','analytics','sessions','2026-11-27 14:51:47.070180');
INSERT INTO "inventory_tables" VALUES('lake.marketing.campaigns','lake','marketing','campaigns','2026-11-27 14:51:47.070180');
INSERT INTO "inventory_tables" VALUES('lake.marketing.email_clicks','lake','marketing','email_clicks','2026-11-27 14:51:47.070180');
INSERT INTO "inventory_tables" VALUES('lake.payments.ledger_entries','lake','payments','ledger_entries','2026-11-27 14:51:47.070180');
INSERT INTO "inventory_tables" VALUES('lake.payments.refunds','lake','payments','refunds','2026-11-27 14:51:47.070180');
INSERT INTO "inventory_tables" VALUES('lake.payments.transactions','lake','payments','transactions','2026-11-27 14:51:47.070180');
CREATE TABLE job_history (
    id INTEGER NOT NULL,
    job_id TEXT NOT NULL,
    at DATETIME NOT NULL,
    event TEXT NOT NULL,
    attempt_id TEXT,
    detail JSON NOT NULL,
    CONSTRAINT pk_job_history PRIMARY KEY (id)
);
INSERT INTO "job_history" VALUES(1,'115a6eee62b146cd81ff671cac7fda11','2026-11-27 15:16:47.569758','submitted',NULL,'{"by": "jana", "table": "lake.payments.transactions", "actions": ["rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]}');
INSERT INTO "job_history" VALUES(2,'115a6eee62b146cd81ff671cac7fda11','2026-11-27 15:18:47.569758','claimed','0fdb06e859a54f449f78c45fd68100e0','{"worker": "worker-1", "attempt": 1}');
INSERT INTO "job_history" VALUES(3,'115a6eee62b146cd81ff671cac7fda11','2026-11-27 15:25:39.569758','action','0fdb06e859a54f449f78c45fd68100e0','{"action": "rewrite_data_files", "outcome": "failed", "message": "Failed", "elapsed_seconds": 412}');
INSERT INTO "job_history" VALUES(4,'115a6eee62b146cd81ff671cac7fda11','2026-11-27 15:25:39.569758','failed','0fdb06e859a54f449f78c45fd68100e0','{"error": "rewrite_data_files failed: org.apache.spark.SparkException: Job aborted due to stage failure: Task 41 in stage 7.0 failed 4 times, most recent failure: Lost task 41.3 in stage 7.0 (TID 512) (10.0.14.7 executor 3): java.lang.OutOfMemoryError: Java heap space\n\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)\n\tat org.apache.parquet.bytes.CapacityByteArrayOutputStream.addSlab(CapacityByteArrayOutputStream.java:198)\n\tat org.apache.iceberg.parquet.ParquetWriter.flushRowGroup(ParquetWriter.java:214)"}');
INSERT INTO "job_history" VALUES(5,'53a0d1e3137348cc99a725ae5ff0d71f','2026-11-27 15:41:47.569758','submitted',NULL,'{"by": "airflow", "table": "lake.analytics.page_views", "actions": ["rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]}');
INSERT INTO "job_history" VALUES(6,'53a0d1e3137348cc99a725ae5ff0d71f','2026-11-27 15:42:35.569758','claimed','c5d7fe53956c41488d9fbe4e33998111','{"worker": "worker-0", "attempt": 1}');
INSERT INTO "job_history" VALUES(7,'53a0d1e3137348cc99a725ae5ff0d71f','2026-11-27 15:51:16.569758','action','c5d7fe53956c41488d9fbe4e33998111','{"action": "rewrite_data_files", "outcome": "succeeded", "message": "Compacted 1,284 files into 93", "elapsed_seconds": 521}');
INSERT INTO "job_history" VALUES(8,'53a0d1e3137348cc99a725ae5ff0d71f','2026-11-27 15:51:54.569758','action','c5d7fe53956c41488d9fbe4e33998111','{"action": "rewrite_position_delete_files", "outcome": "succeeded", "message": "Compacted 212 delete files into 9", "elapsed_seconds": 38}');
INSERT INTO "job_history" VALUES(9,'53a0d1e3137348cc99a725ae5ff0d71f','2026-11-27 15:52:06.969758','action','c5d7fe53956c41488d9fbe4e33998111','{"action": "rewrite_manifests", "outcome": "succeeded", "message": "Rewrote 64 manifests into 5", "elapsed_seconds": 12.4}');
INSERT INTO "job_history" VALUES(10,'53a0d1e3137348cc99a725ae5ff0d71f','2026-11-27 15:52:50.969758','action','c5d7fe53956c41488d9fbe4e33998111','{"action": "expire_snapshots", "outcome": "succeeded", "message": "Expired 362 snapshots and deleted 2,408 files", "elapsed_seconds": 44}');
INSERT INTO "job_history" VALUES(11,'53a0d1e3137348cc99a725ae5ff0d71f','2026-11-27 15:53:51.969758','action','c5d7fe53956c41488d9fbe4e33998111','{"action": "remove_orphan_files", "outcome": "succeeded", "message": "Removed 17 orphan files", "elapsed_seconds": 61}');
INSERT INTO "job_history" VALUES(12,'53a0d1e3137348cc99a725ae5ff0d71f','2026-11-27 15:53:51.969758','completed','c5d7fe53956c41488d9fbe4e33998111','{"error": null}');
INSERT INTO "job_history" VALUES(13,'cc4f2fcf6d5149f68a258e49a211f74d','2026-11-27 16:20:47.569758','submitted',NULL,'{"by": "anton", "table": "lake.marketing.campaigns", "actions": ["rewrite_data_files", "expire_snapshots"]}');
INSERT INTO "job_history" VALUES(14,'cc4f2fcf6d5149f68a258e49a211f74d','2026-11-27 16:21:47.569758','cancelled',NULL,'{"by": "anton"}');
INSERT INTO "job_history" VALUES(15,'d9dc51d5ebcc405fae1d61ed70816854','2026-11-27 16:25:47.569758','dry_run',NULL,'{"actions": ["rewrite_data_files", "expire_snapshots"], "by": "jana"}');
INSERT INTO "job_history" VALUES(16,'0aca12f48a6444678d48991a72d84472','2026-11-27 16:37:47.569758','submitted',NULL,'{"by": "jana", "table": "lake.analytics.events_raw", "actions": ["rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]}');
INSERT INTO "job_history" VALUES(17,'0aca12f48a6444678d48991a72d84472','2026-11-27 16:38:07.569758','claimed','b4ac688d11654a97bc7c5418344a436f','{"worker": "worker-1", "attempt": 1}');
INSERT INTO "job_history" VALUES(18,'0aca12f48a6444678d48991a72d84472','2026-11-27 16:46:07.569758','action','b4ac688d11654a97bc7c5418344a436f','{"action": "rewrite_data_files", "outcome": "succeeded", "message": "Compacted 2,210 files into 141", "elapsed_seconds": 480}');
INSERT INTO "job_history" VALUES(19,'0aca12f48a6444678d48991a72d84472','2026-11-27 16:46:10.769758','action','b4ac688d11654a97bc7c5418344a436f','{"action": "rewrite_position_delete_files", "outcome": "succeeded", "message": "Compacted no delete files", "elapsed_seconds": 3.2}');
INSERT INTO "job_history" VALUES(20,'01aa5223ebe54371a89f3c0e9bf4c80d','2026-11-27 16:45:47.569758','submitted',NULL,'{"by": "airflow", "table": "lake.logistics.shipments", "actions": ["rewrite_data_files", "expire_snapshots"]}');
INSERT INTO "job_history" VALUES(21,'01aa5223ebe54371a89f3c0e9bf4c80d','2026-11-27 16:45:56.569758','claimed','d626cb39655d4ce98dbb7d5943320998','{"worker": "compact_lakehouse/manual__late/maintain[4] try 1 on host-a:311", "attempt": 1}');
INSERT INTO "job_history" VALUES(22,'ab465b3c32184e02a53deb2f14c948f3','2026-11-27 16:49:47.569758','submitted',NULL,'{"by": "anton", "table": "lake.logistics.routes", "actions": ["rewrite_data_files", "expire_snapshots"]}');
INSERT INTO "job_history" VALUES(23,'8ac7f4eb2f354dd3ac3a9cbf366a0d51','2026-11-27 16:49:54.569758','submitted',NULL,'{"by": "anton", "table": "lake.analytics.sessions", "actions": ["rewrite_data_files", "expire_snapshots"]}');
INSERT INTO "job_history" VALUES(24,'773748e4bb6f43de8a33e47c053f5262','2026-11-27 16:50:01.569758','submitted',NULL,'{"by": "anton", "table": "lake.marketing.email_clicks", "actions": ["rewrite_data_files", "expire_snapshots"]}');
INSERT INTO "job_history" VALUES(25,'115a6eee62b146cd81ff671cac7fda11','2026-11-27 15:19:47.569758','heartbeat','0fdb06e859a54f449f78c45fd68100e0','{"count": 6, "last_at": "2026-11-27T15:24:47.569758+00:00"}');
INSERT INTO "job_history" VALUES(26,'53a0d1e3137348cc99a725ae5ff0d71f','2026-11-27 15:43:35.569758','heartbeat','c5d7fe53956c41488d9fbe4e33998111','{"count": 9, "last_at": "2026-11-27T15:53:50.969758+00:00"}');
INSERT INTO "job_history" VALUES(27,'0aca12f48a6444678d48991a72d84472','2026-11-27 16:39:07.569758','heartbeat','b4ac688d11654a97bc7c5418344a436f','{"count": 8, "last_at": "2026-11-27T16:47:10.769758+00:00"}');
INSERT INTO "job_history" VALUES(28,'01aa5223ebe54371a89f3c0e9bf4c80d','2026-11-27 16:46:56.569758','heartbeat','d626cb39655d4ce98dbb7d5943320998','{"count": 1, "last_at": "2026-11-27T16:46:56.569758+00:00"}');
CREATE TABLE job_queue (
    job_id TEXT NOT NULL,
    enqueued_at DATETIME NOT NULL,
    visible_at DATETIME NOT NULL,
    claimed_at DATETIME,
    claimed_by TEXT,
    attempt_id TEXT,
    attempt_count INTEGER NOT NULL,
    catalog_id TEXT DEFAULT '' NOT NULL,
    rank INTEGER DEFAULT '0' NOT NULL,
    turn BIGINT DEFAULT '0' NOT NULL,
    database_name TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_job_queue PRIMARY KEY (job_id)
);
INSERT INTO "job_queue" VALUES('0aca12f48a6444678d48991a72d84472','2026-11-27 16:37:47.569758','2026-11-27 17:17:10.769758','2026-11-27 16:38:07.569758','worker-1','b4ac688d11654a97bc7c5418344a436f',1,'',0,179579746756,'analytics');
INSERT INTO "job_queue" VALUES('01aa5223ebe54371a89f3c0e9bf4c80d','2026-11-27 16:45:47.569758','2026-11-27 17:16:56.569758','2026-11-27 16:45:56.569758','compact_lakehouse/manual__late/maintain[4] try 1 on host-a:311','d626cb39655d4ce98dbb7d5943320998',1,'',0,179579794756,'logistics');
INSERT INTO "job_queue" VALUES('ab465b3c32184e02a53deb2f14c948f3','2026-11-27 16:49:47.569758','2026-11-27 16:49:47.569758',NULL,NULL,NULL,0,'',0,179579818756,'logistics');
INSERT INTO "job_queue" VALUES('8ac7f4eb2f354dd3ac3a9cbf366a0d51','2026-11-27 16:49:54.569758','2026-11-27 16:49:54.569758',NULL,NULL,NULL,0,'',0,179579818756,'analytics');
INSERT INTO "job_queue" VALUES('773748e4bb6f43de8a33e47c053f5262','2026-11-27 16:50:01.569758','2026-11-27 16:50:01.569758',NULL,NULL,NULL,0,'',0,179579818756,'marketing');
CREATE TABLE jobs (
    job_id TEXT NOT NULL,
    catalog TEXT NOT NULL,
    database_name TEXT NOT NULL,
    table_name TEXT NOT NULL,
    table_key TEXT NOT NULL,
    actions JSON NOT NULL,
    options JSON NOT NULL,
    dry_run BOOLEAN NOT NULL,
    status TEXT NOT NULL,
    submitted_at DATETIME NOT NULL,
    submitted_by TEXT,
    owner TEXT,
    inline BOOLEAN NOT NULL,
    started_at DATETIME,
    completed_at DATETIME,
    attempt INTEGER NOT NULL,
    attempt_id TEXT,
    error TEXT,
    results JSON,
    deleted_at DATETIME,
    spark_server TEXT,
    cancelled_by TEXT,
    catalog_id TEXT DEFAULT '' NOT NULL,
    priority INTEGER DEFAULT '0' NOT NULL,
    "plan" JSON,
    awaited BOOLEAN DEFAULT 0 NOT NULL,
    table_uuid TEXT,
    traceparent TEXT,
    CONSTRAINT pk_jobs PRIMARY KEY (job_id)
);
INSERT INTO "jobs" VALUES('115a6eee62b146cd81ff671cac7fda11','lake','payments','transactions','lake.payments.transactions','["rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]','{}',0,'failed','2026-11-27 15:16:47.569758','jana',NULL,0,'2026-11-27 15:18:47.569758','2026-11-27 15:25:39.569758',1,'0fdb06e859a54f449f78c45fd68100e0','rewrite_data_files failed: org.apache.spark.SparkException: Job aborted due to stage failure: Task 41 in stage 7.0 failed 4 times, most recent failure: Lost task 41.3 in stage 7.0 (TID 512) (10.0.14.7 executor 3): java.lang.OutOfMemoryError: Java heap space
	at java.base/java.util.Arrays.copyOf(Arrays.java:3537)
	at org.apache.parquet.bytes.CapacityByteArrayOutputStream.addSlab(CapacityByteArrayOutputStream.java:198)
	at org.apache.iceberg.parquet.ParquetWriter.flushRowGroup(ParquetWriter.java:214)','[{"action": "rewrite_data_files", "outcome": "failed", "message": "Failed", "elapsed_seconds": 412, "error": "org.apache.spark.SparkException: Job aborted due to stage failure: Task 41 in stage 7.0 failed 4 times, most recent failure: Lost task 41.3 in stage 7.0 (TID 512) (10.0.14.7 executor 3): java.lang.OutOfMemoryError: Java heap space\n\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)\n\tat org.apache.parquet.bytes.CapacityByteArrayOutputStream.addSlab(CapacityByteArrayOutputStream.java:198)\n\tat org.apache.iceberg.parquet.ParquetWriter.flushRowGroup(ParquetWriter.java:214)", "metrics": {}}]',NULL,NULL,NULL,'',0,NULL,0,NULL,NULL);
INSERT INTO "jobs" VALUES('53a0d1e3137348cc99a725ae5ff0d71f','lake','analytics','page_views','lake.analytics.page_views','["rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]','{}',0,'completed','2026-11-27 15:41:47.569758','airflow','compact_lakehouse/manual__2026-11-27T15:41:47+00:00/maintain[0]',0,'2026-11-27 15:42:35.569758','2026-11-27 15:53:51.969758',1,'c5d7fe53956c41488d9fbe4e33998111',NULL,'[{"action": "rewrite_data_files", "outcome": "succeeded", "message": "Compacted 1,284 files into 93", "elapsed_seconds": 521, "error": null, "metrics": {"rewritten_data_files_count": 1284, "added_data_files_count": 93, "rewritten_bytes_count": 48549068800, "failed_data_files_count": 0, "removed_delete_files_count": 0}}, {"action": "rewrite_position_delete_files", "outcome": "succeeded", "message": "Compacted 212 delete files into 9", "elapsed_seconds": 38, "error": null, "metrics": {"rewritten_delete_files_count": 212, "added_delete_files_count": 9, "rewritten_bytes_count": 39845888, "added_bytes_count": 4194304}}, {"action": "rewrite_manifests", "outcome": "succeeded", "message": "Rewrote 64 manifests into 5", "elapsed_seconds": 12.4, "error": null, "metrics": {"rewritten_manifests_count": 64, "added_manifests_count": 5}}, {"action": "expire_snapshots", "outcome": "succeeded", "message": "Expired 362 snapshots and deleted 2,408 files", "elapsed_seconds": 44, "error": null, "metrics": {"expired_snapshots_count": 362, "deleted_data_files_count": 1190, "deleted_position_delete_files_count": 132, "deleted_manifest_files_count": 724, "deleted_manifest_lists_count": 362}}, {"action": "remove_orphan_files", "outcome": "succeeded", "message": "Removed 17 orphan files", "elapsed_seconds": 61, "error": null, "metrics": {"planned_files_count": 17, "removed_files_count": 17}}]',NULL,NULL,NULL,'',0,NULL,0,NULL,NULL);
INSERT INTO "jobs" VALUES('cc4f2fcf6d5149f68a258e49a211f74d','lake','marketing','campaigns','lake.marketing.campaigns','["rewrite_data_files", "expire_snapshots"]','{}',0,'cancelled','2026-11-27 16:20:47.569758','anton',NULL,0,NULL,'2026-11-27 16:21:47.569758',0,NULL,'Cancelled by user',NULL,NULL,NULL,'anton','',0,NULL,0,NULL,NULL);
INSERT INTO "jobs" VALUES('d9dc51d5ebcc405fae1d61ed70816854','lake','payments','refunds','lake.payments.refunds','["rewrite_data_files", "expire_snapshots"]','{}',1,'completed','2026-11-27 16:25:47.569758','jana',NULL,0,'2026-11-27 16:25:47.569758','2026-11-27 16:25:47.569758',0,NULL,NULL,'[{"action": "rewrite_data_files", "outcome": "succeeded", "message": "Would compact 412 files into 28", "elapsed_seconds": 0.2, "error": null, "metrics": {"rewritten_data_files_count": 412, "added_data_files_count": 28, "rewritten_bytes_count": 3250585600}}, {"action": "expire_snapshots", "outcome": "succeeded", "message": "Would expire 96 of 110 snapshots and delete 978 files", "elapsed_seconds": 0.1, "error": null, "metrics": {"expired_snapshots_count": 96, "kept_snapshots_count": 14, "deleted_data_files_count": 702, "deleted_manifest_files_count": 180, "deleted_manifest_lists_count": 96}}]',NULL,NULL,NULL,'',0,NULL,0,NULL,NULL);
INSERT INTO "jobs" VALUES('0aca12f48a6444678d48991a72d84472','lake','analytics','events_raw','lake.analytics.events_raw','["rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]','{}',0,'running','2026-11-27 16:37:47.569758','jana',NULL,0,'2026-11-27 16:38:07.569758',NULL,1,'b4ac688d11654a97bc7c5418344a436f',NULL,'[{"action": "rewrite_data_files", "outcome": "succeeded", "message": "Compacted 2,210 files into 141", "elapsed_seconds": 480, "error": null, "metrics": {"rewritten_data_files_count": 2210, "added_data_files_count": 141, "rewritten_bytes_count": 74448896000, "failed_data_files_count": 0, "removed_delete_files_count": 0}}, {"action": "rewrite_position_delete_files", "outcome": "succeeded", "message": "Compacted no delete files", "elapsed_seconds": 3.2, "error": null, "metrics": {}}]',NULL,NULL,NULL,'',0,NULL,0,NULL,NULL);
INSERT INTO "jobs" VALUES('01aa5223ebe54371a89f3c0e9bf4c80d','lake','logistics','shipments','lake.logistics.shipments','["rewrite_data_files", "expire_snapshots"]','{}',0,'running','2026-11-27 16:45:47.569758','airflow','compact_lakehouse/manual__late/maintain[4]',0,'2026-11-27 16:45:56.569758',NULL,1,'d626cb39655d4ce98dbb7d5943320998',NULL,NULL,NULL,NULL,NULL,'',0,NULL,0,NULL,NULL);
INSERT INTO "jobs" VALUES('ab465b3c32184e02a53deb2f14c948f3','lake','logistics','routes','lake.logistics.routes','["rewrite_data_files", "expire_snapshots"]','{}',0,'pending','2026-11-27 16:49:47.569758','anton',NULL,0,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,'',0,NULL,0,NULL,NULL);
INSERT INTO "jobs" VALUES('8ac7f4eb2f354dd3ac3a9cbf366a0d51','lake','analytics','sessions','lake.analytics.sessions','["rewrite_data_files", "expire_snapshots"]','{}',0,'pending','2026-11-27 16:49:54.569758','anton',NULL,0,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,'',0,NULL,0,NULL,NULL);
INSERT INTO "jobs" VALUES('773748e4bb6f43de8a33e47c053f5262','lake','marketing','email_clicks','lake.marketing.email_clicks','["rewrite_data_files", "expire_snapshots"]','{}',0,'pending','2026-11-27 16:50:01.569758','anton',NULL,0,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,'',0,NULL,0,NULL,NULL);
CREATE TABLE launches (
    pending_id TEXT NOT NULL,
    schedule TEXT NOT NULL,
    dag_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    conf JSON NOT NULL,
    enqueued_at DATETIME NOT NULL,
    visible_at DATETIME NOT NULL,
    claimed_at DATETIME,
    claimed_by TEXT,
    attempt_id TEXT,
    attempt_count INTEGER NOT NULL,
    problem TEXT,
    absorbs BOOLEAN DEFAULT 0 NOT NULL,
    CONSTRAINT pk_launches PRIMARY KEY (pending_id)
);
INSERT INTO "launches" VALUES('1d2a11d8a30d1b340718475e9f5858d8','campaigns','maintain_paused','snowpack__campaigns__20261127T144947__1d2a11d8a30d','{"snowpack": {"schedule": "campaigns", "pending_id": "1d2a11d8a30d1b340718475e9f5858d8", "event_count": 3, "events": [{"id": 4, "key": "clock:campaigns:0", "at": "2026-11-27T14:30:00+00:00", "amounts": {}, "detail": {"ticks": ["2026-11-27T14:00:00+00:00", "2026-11-27T14:30:00+00:00"]}}, {"id": 8, "key": "clock:campaigns:0", "at": "2026-11-27T15:30:00+00:00", "amounts": {}, "detail": {"ticks": ["2026-11-27T15:00:00+00:00", "2026-11-27T15:30:00+00:00"]}}, {"id": 11, "key": "clock:campaigns:0", "at": "2026-11-27T16:30:00+00:00", "amounts": {}, "detail": {"ticks": ["2026-11-27T16:00:00+00:00", "2026-11-27T16:30:00+00:00"]}}], "missing": []}}','2026-11-27 14:49:47.633646','2026-11-27 16:56:47.633646',NULL,NULL,NULL,7,'the DAG maintain_paused is paused',1);
CREATE TABLE operation_edges (
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    operations BIGINT NOT NULL,
    first_at DATETIME NOT NULL,
    last_at DATETIME NOT NULL,
    CONSTRAINT pk_operation_edges PRIMARY KEY (source, target)
);
CREATE TABLE operation_tables (
    operation_id TEXT NOT NULL,
    role TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    name TEXT NOT NULL,
    snapshot_id BIGINT,
    build_run TEXT,
    location TEXT,
    at DATETIME NOT NULL,
    CONSTRAINT pk_operation_tables PRIMARY KEY (operation_id, role, ordinal)
);
CREATE TABLE operations (
    operation_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    at DATETIME NOT NULL,
    rows BIGINT,
    dag_id TEXT,
    run_id TEXT,
    task_id TEXT,
    map_index INTEGER,
    try_number INTEGER,
    job_id TEXT,
    detail JSON NOT NULL,
    CONSTRAINT pk_operations PRIMARY KEY (operation_id)
);
CREATE TABLE pending_events (
    pending_id TEXT NOT NULL,
    event_id BIGINT NOT NULL,
    leaf INTEGER NOT NULL,
    CONSTRAINT pk_pending_events PRIMARY KEY (pending_id, event_id, leaf)
);
INSERT INTO "pending_events" VALUES('cf5e4a9bb653c70e97fea6494c0633a5',1,0);
INSERT INTO "pending_events" VALUES('cf5e4a9bb653c70e97fea6494c0633a5',1,1);
INSERT INTO "pending_events" VALUES('2d01580ea47bb4fa375cd187b0e468eb',2,0);
INSERT INTO "pending_events" VALUES('ec095f233097c3b28eb04c3e3d410877',3,0);
INSERT INTO "pending_events" VALUES('ec095f233097c3b28eb04c3e3d410877',3,1);
INSERT INTO "pending_events" VALUES('1d2a11d8a30d1b340718475e9f5858d8',4,0);
INSERT INTO "pending_events" VALUES('5535ad0d09fc36eb87208ee290c3a3ac',5,0);
INSERT INTO "pending_events" VALUES('1d2a11d8a30d1b340718475e9f5858d8',8,0);
INSERT INTO "pending_events" VALUES('b0efbe112d2e953b0622d936f8131e45',7,0);
INSERT INTO "pending_events" VALUES('b0efbe112d2e953b0622d936f8131e45',7,1);
INSERT INTO "pending_events" VALUES('1d2a11d8a30d1b340718475e9f5858d8',11,0);
INSERT INTO "pending_events" VALUES('b0efbe112d2e953b0622d936f8131e45',10,0);
INSERT INTO "pending_events" VALUES('b0efbe112d2e953b0622d936f8131e45',10,1);
INSERT INTO "pending_events" VALUES('eed8e5cd9652199b6730b0c4be4b60fd',12,0);
INSERT INTO "pending_events" VALUES('eed8e5cd9652199b6730b0c4be4b60fd',13,1);
INSERT INTO "pending_events" VALUES('a6c2cd78edd12c4810fce45eacb5a70c',14,0);
INSERT INTO "pending_events" VALUES('c746e62335f1b916587fea9d5dcd4246',15,0);
INSERT INTO "pending_events" VALUES('d47e29accbd91fdaf982b2629156c62f',16,0);
CREATE TABLE pending_jobs (
    pending_id TEXT NOT NULL,
    schedule TEXT NOT NULL,
    generation TEXT NOT NULL,
    dag_id TEXT NOT NULL,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,
    created_at DATETIME NOT NULL,
    triggered_at DATETIME,
    expires_at DATETIME,
    next_check_at DATETIME,
    waits_for TEXT,
    counted_to BIGINT NOT NULL,
    progress JSON NOT NULL,
    reasons JSON NOT NULL,
    ended_at DATETIME,
    ended_because TEXT,
    run_id TEXT,
    CONSTRAINT pk_pending_jobs PRIMARY KEY (pending_id)
);
INSERT INTO "pending_jobs" VALUES('cf5e4a9bb653c70e97fea6494c0633a5','page_views_in_bulk','833247c19c6e4ffba27862775f3dccf1','maintain_page_views','launched',5,'2026-11-27 13:56:47.633646','2026-11-27 13:56:47.633646','2026-11-28 13:56:47.633646',NULL,NULL,1,'{"0": {"events": 1, "amount": 5, "first_at": "2026-11-27T13:56:47.633646+00:00", "last_at": "2026-11-27T13:56:47.633646+00:00", "reached_at": "2026-11-27T13:56:47.633646+00:00"}, "1": {"events": 1, "amount": 12000000000, "first_at": "2026-11-27T13:56:47.633646+00:00", "last_at": "2026-11-27T13:56:47.633646+00:00"}}','[{"what": "trigger", "says": "5 of 5 partitions of analytics.page_views or 11.2 GiB of 93.1 GiB of analytics.page_views or less than 4 h since the last launch", "met": true, "not_before": null}, {"what": "max_concurrent", "says": "0 of at most 2 runs of group compaction are active", "met": true, "not_before": null}, {"what": "since_last_run", "says": "no run of maintain_page_views succeeded within 5 min", "met": true, "not_before": null}]','2026-11-27 13:56:47.633646',NULL,'snowpack__page_views_in_bulk__20261127T135647__cf5e4a9bb653');
INSERT INTO "pending_jobs" VALUES('2d01580ea47bb4fa375cd187b0e468eb','page_views_report','29c5a8a9c9e24d17976d18440d838309','report_page_views','launched',0,'2026-11-27 13:59:47.633646','2026-11-27 13:59:47.633646','2026-11-28 13:59:47.633646',NULL,NULL,2,'{"0": {"events": 1, "amount": 0, "first_at": "2026-11-27T13:59:47.633646+00:00", "last_at": "2026-11-27T13:59:47.633646+00:00", "reached_at": "2026-11-27T13:59:47.633646+00:00"}}','[{"what": "trigger", "says": "1 of 1 successful runs of maintain_page_views", "met": true, "not_before": null}]','2026-11-27 13:59:47.633646',NULL,'snowpack__page_views_report__20261127T135947__2d01580ea47b');
INSERT INTO "pending_jobs" VALUES('ec095f233097c3b28eb04c3e3d410877','page_views_in_bulk','833247c19c6e4ffba27862775f3dccf1','maintain_page_views','launched',5,'2026-11-27 14:49:47.633646','2026-11-27 14:49:47.633646','2026-11-28 14:49:47.633646',NULL,NULL,3,'{"0": {"events": 1, "amount": 5, "first_at": "2026-11-27T14:49:47.633646+00:00", "last_at": "2026-11-27T14:49:47.633646+00:00", "reached_at": "2026-11-27T14:49:47.633646+00:00"}, "1": {"events": 1, "amount": 64000000000, "first_at": "2026-11-27T14:49:47.633646+00:00", "last_at": "2026-11-27T14:49:47.633646+00:00"}}','[{"what": "trigger", "says": "5 of 5 partitions of analytics.page_views or 59.6 GiB of 93.1 GiB of analytics.page_views or less than 4 h since the last launch", "met": true, "not_before": null}, {"what": "max_concurrent", "says": "0 of at most 2 runs of group compaction are active", "met": true, "not_before": null}, {"what": "since_last_run", "says": "no run of maintain_page_views succeeded within 5 min", "met": true, "not_before": null}]','2026-11-27 14:49:47.633646',NULL,'snowpack__page_views_in_bulk__20261127T144947__ec095f233097');
INSERT INTO "pending_jobs" VALUES('1d2a11d8a30d1b340718475e9f5858d8','campaigns','434cf5417a8a49b3ad7bc2f70722f6b6','maintain_paused','pending_launch',0,'2026-11-27 14:49:47.633646','2026-11-27 14:30:00.000000','2026-11-28 14:30:00.000000',NULL,NULL,4,'{"0": {"events": 1, "amount": 0, "first_at": "2026-11-27T14:30:00+00:00", "last_at": "2026-11-27T14:30:00+00:00", "reached_at": "2026-11-27T14:30:00+00:00"}}','[{"what": "trigger", "says": "cron */30 * * * * (UTC) is due", "met": true, "not_before": null}]',NULL,NULL,'snowpack__campaigns__20261127T144947__1d2a11d8a30d');
INSERT INTO "pending_jobs" VALUES('5535ad0d09fc36eb87208ee290c3a3ac','page_views_report','29c5a8a9c9e24d17976d18440d838309','report_page_views','launched',0,'2026-11-27 14:52:47.633646','2026-11-27 14:52:47.633646','2026-11-28 14:52:47.633646',NULL,NULL,5,'{"0": {"events": 1, "amount": 0, "first_at": "2026-11-27T14:52:47.633646+00:00", "last_at": "2026-11-27T14:52:47.633646+00:00", "reached_at": "2026-11-27T14:52:47.633646+00:00"}}','[{"what": "trigger", "says": "1 of 1 successful runs of maintain_page_views", "met": true, "not_before": null}]','2026-11-27 14:52:47.633646',NULL,'snowpack__page_views_report__20261127T145247__5535ad0d09fc');
INSERT INTO "pending_jobs" VALUES('b0efbe112d2e953b0622d936f8131e45','page_views_in_bulk','833247c19c6e4ffba27862775f3dccf1','maintain_page_views','pending_trigger',5,'2026-11-27 15:32:47.633646',NULL,NULL,NULL,NULL,10,'{"0": {"events": 2, "amount": 3, "first_at": "2026-11-27T15:32:47.633646+00:00", "last_at": "2026-11-27T16:37:47.633646+00:00"}, "1": {"events": 2, "amount": 41000000000, "first_at": "2026-11-27T15:32:47.633646+00:00", "last_at": "2026-11-27T16:37:47.633646+00:00"}}','[{"what": "trigger", "says": "3 of 5 partitions of analytics.page_views or 38.2 GiB of 93.1 GiB of analytics.page_views or less than 4 h since the last launch", "met": false, "not_before": null}]',NULL,NULL,NULL);
INSERT INTO "pending_jobs" VALUES('eed8e5cd9652199b6730b0c4be4b60fd','ledger_urgent','c21e67608cce4a8caccb0c3c23d64130','close_ledger','launched',10,'2026-11-27 16:40:47.633646','2026-11-27 16:40:47.633646','2026-11-28 16:40:47.633646',NULL,NULL,13,'{"0": {"events": 1, "amount": 0, "first_at": "2026-11-27T16:40:47.633646+00:00", "last_at": "2026-11-27T16:40:47.633646+00:00", "reached_at": "2026-11-27T16:40:47.633646+00:00"}, "1": {"events": 1, "amount": 0, "first_at": "2026-11-27T16:40:47.633646+00:00", "last_at": "2026-11-27T16:40:47.633646+00:00", "reached_at": "2026-11-27T16:40:47.633646+00:00"}}','[{"what": "trigger", "says": "1 of 1 commits of payments.transactions and 1 of 1 commits of payments.refunds", "met": true, "not_before": null}, {"what": "pool_slots", "says": "pool spark has 1 free slot", "met": true, "not_before": null}]','2026-11-27 16:40:47.633646',NULL,'snowpack__ledger_urgent__20261127T164047__eed8e5cd9652');
INSERT INTO "pending_jobs" VALUES('a6c2cd78edd12c4810fce45eacb5a70c','sessions_nightly','9236bce191074858b326e0cd4dd6feb6','maintain_sessions','pending_constraint',0,'2026-11-27 16:40:47.633646','2026-11-27 16:40:47.633646','2026-11-28 16:40:47.633646','2026-11-27 20:51:00.000000',NULL,14,'{"0": {"events": 1, "amount": 0, "first_at": "2026-11-27T16:40:47.633646+00:00", "last_at": "2026-11-27T16:40:47.633646+00:00", "reached_at": "2026-11-27T16:40:47.633646+00:00"}}','[{"what": "trigger", "says": "1 of 1 commits of analytics.sessions", "met": true, "not_before": null}, {"what": "time_window", "says": "outside of 20:51 to 04:51 UTC", "met": false, "not_before": "2026-11-27T20:51:00+00:00"}, {"what": "max_concurrent", "says": "0 of at most 2 runs of group compaction are active", "met": true, "not_before": null}]',NULL,NULL,NULL);
INSERT INTO "pending_jobs" VALUES('c746e62335f1b916587fea9d5dcd4246','newer_than_this','7f1c6fb1f9244183bac85fbef21b488a','maintain_routes','pending_trigger',0,'2026-11-27 16:40:47.633646',NULL,NULL,'2026-11-27 16:52:17.633646',NULL,0,'{}','[{"what": "schedule", "says": "its definition cannot be read: trigger = ''moon_phase'' is not usable: it is not known; use partitions_added, bytes_added, files_added, records_added, commits_added, runs_succeeded, runs_failed, asset_events, custom_events, cron, every, by_hand, since, at_latest, all_of, any_of.", "met": false, "not_before": null}]',NULL,NULL,NULL);
INSERT INTO "pending_jobs" VALUES('d47e29accbd91fdaf982b2629156c62f','stock_levels','94fe0ddc510f43258f07ab83038aa195','refresh_stock','pending_constraint',0,'2026-11-27 16:40:47.633646','2026-11-27 16:40:47.633646','2026-11-28 16:40:47.633646','2026-11-27 16:52:17.633646','pool:spark',16,'{"0": {"events": 1, "amount": 0, "first_at": "2026-11-27T16:40:47.633646+00:00", "last_at": "2026-11-27T16:40:47.633646+00:00", "reached_at": "2026-11-27T16:40:47.633646+00:00"}}','[{"what": "trigger", "says": "1 of 1 events named shipment", "met": true, "not_before": null}, {"what": "pool_slots", "says": "pool spark has 1 free slot, 1 reserved for starting runs; 1 needed", "met": false, "not_before": null}]',NULL,NULL,NULL);
CREATE TABLE removal_parts (
    removal_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    content BLOB NOT NULL,
    CONSTRAINT pk_removal_parts PRIMARY KEY (removal_id, number)
);
CREATE TABLE removals (
    removal_id TEXT NOT NULL,
    catalog TEXT NOT NULL,
    catalog_id TEXT NOT NULL,
    database_name TEXT NOT NULL,
    table_name TEXT NOT NULL,
    table_key TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    planned_at DATETIME NOT NULL,
    expires_at DATETIME NOT NULL,
    planned_by_job TEXT NOT NULL,
    requested_by TEXT,
    table_uuid TEXT NOT NULL,
    metadata_location TEXT NOT NULL,
    location TEXT NOT NULL,
    settings JSON NOT NULL,
    item_count INTEGER NOT NULL,
    bytes BIGINT,
    decided_at DATETIME,
    decided_by TEXT,
    comment TEXT,
    job_id TEXT,
    attempt_id TEXT,
    started_at DATETIME,
    ended_at DATETIME,
    deleted_count INTEGER NOT NULL,
    gone_count INTEGER NOT NULL,
    left_out_count INTEGER NOT NULL,
    error TEXT,
    quarantined_count INTEGER DEFAULT '0' NOT NULL,
    restored_count INTEGER DEFAULT '0' NOT NULL,
    quarantined_until DATETIME,
    CONSTRAINT pk_removals PRIMARY KEY (removal_id)
);
CREATE TABLE run_places (
    dag_id TEXT NOT NULL,
    since DATETIME NOT NULL,
    look_at DATETIME NOT NULL,
    mark JSON NOT NULL,
    CONSTRAINT pk_run_places PRIMARY KEY (dag_id)
);
INSERT INTO "run_places" VALUES('maintain_page_views','2026-11-27 13:51:47.633646','2026-11-27 13:51:47.633646','{}');
INSERT INTO "run_places" VALUES('maintain_sessions','2026-11-27 13:51:47.633646','2026-11-27 13:51:47.633646','{}');
INSERT INTO "run_places" VALUES('report_page_views','2026-11-27 13:59:47.633646','2026-11-27 14:04:47.633646','{}');
INSERT INTO "run_places" VALUES('maintain_paused','2026-11-27 14:49:47.633646','2026-11-27 14:54:47.633646','{}');
INSERT INTO "run_places" VALUES('close_ledger','2026-11-27 16:40:47.633646','2026-11-27 16:45:47.633646','{}');
CREATE TABLE schedule_clocks (
    schedule TEXT NOT NULL,
    leaf INTEGER NOT NULL,
    next_at DATETIME NOT NULL,
    look_at DATETIME NOT NULL,
    CONSTRAINT pk_schedule_clocks PRIMARY KEY (schedule, leaf)
);
INSERT INTO "schedule_clocks" VALUES('page_views_in_bulk',2,'2026-11-27 18:49:47.633646','2026-11-27 18:49:47.633646');
INSERT INTO "schedule_clocks" VALUES('campaigns',0,'2026-11-27 17:00:00.000000','2026-11-27 17:00:00.000000');
CREATE TABLE schedule_dags (
    schedule TEXT NOT NULL,
    dag_id TEXT NOT NULL,
    CONSTRAINT pk_schedule_dags PRIMARY KEY (schedule, dag_id)
);
INSERT INTO "schedule_dags" VALUES('page_views_in_bulk','maintain_page_views');
INSERT INTO "schedule_dags" VALUES('page_views_report','maintain_page_views');
INSERT INTO "schedule_dags" VALUES('sessions_nightly','maintain_sessions');
CREATE TABLE schedule_groups (
    schedule TEXT NOT NULL,
    group_name TEXT NOT NULL,
    dag_id TEXT NOT NULL,
    CONSTRAINT pk_schedule_groups PRIMARY KEY (schedule, group_name)
);
INSERT INTO "schedule_groups" VALUES('page_views_in_bulk','compaction','maintain_page_views');
INSERT INTO "schedule_groups" VALUES('sessions_nightly','compaction','maintain_sessions');
CREATE TABLE schedule_history (
    id INTEGER NOT NULL,
    schedule TEXT NOT NULL,
    at DATETIME NOT NULL,
    what TEXT NOT NULL,
    pending_id TEXT,
    detail JSON NOT NULL,
    CONSTRAINT pk_schedule_history PRIMARY KEY (id)
);
INSERT INTO "schedule_history" VALUES(1,'page_views_in_bulk','2026-11-27 13:51:47.633646','created',NULL,'{"by": "jana", "enabled": true}');
INSERT INTO "schedule_history" VALUES(2,'page_views_report','2026-11-27 13:51:47.633646','created',NULL,'{"by": "jana", "enabled": true}');
INSERT INTO "schedule_history" VALUES(3,'sessions_nightly','2026-11-27 13:51:47.633646','created',NULL,'{"by": "jana", "enabled": true}');
INSERT INTO "schedule_history" VALUES(4,'ledger_urgent','2026-11-27 13:51:47.633646','created',NULL,'{"by": "jana", "enabled": true}');
INSERT INTO "schedule_history" VALUES(5,'stock_levels','2026-11-27 13:51:47.633646','created',NULL,'{"by": "jana", "enabled": true}');
INSERT INTO "schedule_history" VALUES(6,'campaigns','2026-11-27 13:51:47.633646','created',NULL,'{"by": "jana", "enabled": true}');
INSERT INTO "schedule_history" VALUES(7,'email_clicks','2026-11-27 13:51:47.633646','created',NULL,'{"by": "jana", "enabled": false}');
INSERT INTO "schedule_history" VALUES(8,'newer_than_this','2026-11-27 13:51:47.633646','created',NULL,'{"by": "jana", "enabled": true}');
INSERT INTO "schedule_history" VALUES(9,'page_views_in_bulk','2026-11-27 13:56:47.633646','triggered','cf5e4a9bb653c70e97fea6494c0633a5','{"says": "5 of 5 partitions of analytics.page_views or 11.2 GiB of 93.1 GiB of analytics.page_views or less than 4 h since the last launch", "since": "2026-11-27T13:56:47.633646+00:00"}');
INSERT INTO "schedule_history" VALUES(10,'page_views_in_bulk','2026-11-27 13:56:47.633646','launched','cf5e4a9bb653c70e97fea6494c0633a5','{"run_id": "snowpack__page_views_in_bulk__20261127T135647__cf5e4a9bb653"}');
INSERT INTO "schedule_history" VALUES(11,'page_views_report','2026-11-27 13:59:47.633646','triggered','2d01580ea47bb4fa375cd187b0e468eb','{"says": "1 of 1 successful runs of maintain_page_views", "since": "2026-11-27T13:59:47.633646+00:00"}');
INSERT INTO "schedule_history" VALUES(12,'page_views_report','2026-11-27 13:59:47.633646','launched','2d01580ea47bb4fa375cd187b0e468eb','{"run_id": "snowpack__page_views_report__20261127T135947__2d01580ea47b"}');
INSERT INTO "schedule_history" VALUES(13,'campaigns','2026-11-27 14:49:47.633646','ticks_missed',NULL,'{"policy": "one", "count": 2, "ticks": ["2026-11-27T14:00:00+00:00", "2026-11-27T14:30:00+00:00"]}');
INSERT INTO "schedule_history" VALUES(14,'campaigns','2026-11-27 14:49:47.633646','triggered','1d2a11d8a30d1b340718475e9f5858d8','{"says": "cron */30 * * * * (UTC) is due", "since": "2026-11-27T14:30:00+00:00"}');
INSERT INTO "schedule_history" VALUES(15,'page_views_in_bulk','2026-11-27 14:49:47.633646','triggered','ec095f233097c3b28eb04c3e3d410877','{"says": "5 of 5 partitions of analytics.page_views or 59.6 GiB of 93.1 GiB of analytics.page_views or less than 4 h since the last launch", "since": "2026-11-27T14:49:47.633646+00:00"}');
INSERT INTO "schedule_history" VALUES(16,'campaigns','2026-11-27 14:49:47.633646','launch_waits','1d2a11d8a30d1b340718475e9f5858d8','{"because": "the DAG maintain_paused is paused"}');
INSERT INTO "schedule_history" VALUES(17,'page_views_in_bulk','2026-11-27 14:49:47.633646','launched','ec095f233097c3b28eb04c3e3d410877','{"run_id": "snowpack__page_views_in_bulk__20261127T144947__ec095f233097"}');
INSERT INTO "schedule_history" VALUES(18,'page_views_report','2026-11-27 14:52:47.633646','triggered','5535ad0d09fc36eb87208ee290c3a3ac','{"says": "1 of 1 successful runs of maintain_page_views", "since": "2026-11-27T14:52:47.633646+00:00"}');
INSERT INTO "schedule_history" VALUES(19,'page_views_report','2026-11-27 14:52:47.633646','launched','5535ad0d09fc36eb87208ee290c3a3ac','{"run_id": "snowpack__page_views_report__20261127T145247__5535ad0d09fc"}');
INSERT INTO "schedule_history" VALUES(20,'campaigns','2026-11-27 15:32:47.633646','ticks_missed',NULL,'{"policy": "one", "count": 2, "ticks": ["2026-11-27T15:00:00+00:00", "2026-11-27T15:30:00+00:00"]}');
INSERT INTO "schedule_history" VALUES(21,'campaigns','2026-11-27 16:37:47.633646','ticks_missed',NULL,'{"policy": "one", "count": 2, "ticks": ["2026-11-27T16:00:00+00:00", "2026-11-27T16:30:00+00:00"]}');
INSERT INTO "schedule_history" VALUES(22,'ledger_urgent','2026-11-27 16:40:47.633646','triggered','eed8e5cd9652199b6730b0c4be4b60fd','{"says": "1 of 1 commits of payments.transactions and 1 of 1 commits of payments.refunds", "since": "2026-11-27T16:40:47.633646+00:00"}');
INSERT INTO "schedule_history" VALUES(23,'ledger_urgent','2026-11-27 16:40:47.633646','launched','eed8e5cd9652199b6730b0c4be4b60fd','{"run_id": "snowpack__ledger_urgent__20261127T164047__eed8e5cd9652"}');
INSERT INTO "schedule_history" VALUES(24,'sessions_nightly','2026-11-27 16:40:47.633646','triggered','a6c2cd78edd12c4810fce45eacb5a70c','{"says": "1 of 1 commits of analytics.sessions", "since": "2026-11-27T16:40:47.633646+00:00"}');
INSERT INTO "schedule_history" VALUES(25,'stock_levels','2026-11-27 16:40:47.633646','triggered','d47e29accbd91fdaf982b2629156c62f','{"says": "1 of 1 events named shipment", "since": "2026-11-27T16:40:47.633646+00:00"}');
CREATE TABLE schedule_runs (
    dag_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    schedule TEXT NOT NULL,
    reserved_at DATETIME NOT NULL,
    launched_at DATETIME,
    ended_at DATETIME,
    state TEXT,
    CONSTRAINT pk_schedule_runs PRIMARY KEY (dag_id, run_id)
);
INSERT INTO "schedule_runs" VALUES('maintain_page_views','snowpack__page_views_in_bulk__20261127T135647__cf5e4a9bb653','page_views_in_bulk','2026-11-27 13:56:47.633646','2026-11-27 13:56:47.633646','2026-11-27 13:59:47.633646','success');
INSERT INTO "schedule_runs" VALUES('report_page_views','snowpack__page_views_report__20261127T135947__2d01580ea47b','page_views_report','2026-11-27 13:59:47.633646','2026-11-27 13:59:47.633646','2026-11-27 14:52:47.633646','success');
INSERT INTO "schedule_runs" VALUES('maintain_paused','snowpack__campaigns__20261127T144947__1d2a11d8a30d','campaigns','2026-11-27 14:49:47.633646',NULL,NULL,NULL);
INSERT INTO "schedule_runs" VALUES('maintain_page_views','snowpack__page_views_in_bulk__20261127T144947__ec095f233097','page_views_in_bulk','2026-11-27 14:49:47.633646','2026-11-27 14:49:47.633646','2026-11-27 14:52:47.633646','success');
INSERT INTO "schedule_runs" VALUES('report_page_views','snowpack__page_views_report__20261127T145247__5535ad0d09fc','page_views_report','2026-11-27 14:52:47.633646','2026-11-27 14:52:47.633646','2026-11-27 15:35:47.633646','success');
INSERT INTO "schedule_runs" VALUES('close_ledger','snowpack__ledger_urgent__20261127T164047__eed8e5cd9652','ledger_urgent','2026-11-27 16:40:47.633646','2026-11-27 16:40:47.633646',NULL,NULL);
CREATE TABLE schedule_triggers (
    schedule TEXT NOT NULL,
    leaf INTEGER NOT NULL,
    generation TEXT NOT NULL,
    event_key TEXT NOT NULL,
    counts_after BIGINT NOT NULL,
    counts_from DATETIME NOT NULL,
    CONSTRAINT pk_schedule_triggers PRIMARY KEY (schedule, leaf)
);
INSERT INTO "schedule_triggers" VALUES('page_views_in_bulk',0,'833247c19c6e4ffba27862775f3dccf1','table:lake.analytics.page_views',0,'2026-11-27 13:51:46.633000');
INSERT INTO "schedule_triggers" VALUES('page_views_in_bulk',1,'833247c19c6e4ffba27862775f3dccf1','table:lake.analytics.page_views',0,'2026-11-27 13:51:46.633000');
INSERT INTO "schedule_triggers" VALUES('page_views_in_bulk',2,'833247c19c6e4ffba27862775f3dccf1','clock:page_views_in_bulk:2',4,'2026-11-27 13:51:47.633000');
INSERT INTO "schedule_triggers" VALUES('page_views_report',0,'29c5a8a9c9e24d17976d18440d838309','run:maintain_page_views:success',0,'2026-11-27 13:51:47.633000');
INSERT INTO "schedule_triggers" VALUES('sessions_nightly',0,'9236bce191074858b326e0cd4dd6feb6','table:lake.analytics.sessions',0,'2026-11-27 13:51:46.633000');
INSERT INTO "schedule_triggers" VALUES('ledger_urgent',0,'c21e67608cce4a8caccb0c3c23d64130','table:lake.payments.transactions',0,'2026-11-27 13:51:46.633000');
INSERT INTO "schedule_triggers" VALUES('ledger_urgent',1,'c21e67608cce4a8caccb0c3c23d64130','table:lake.payments.refunds',0,'2026-11-27 13:51:46.633000');
INSERT INTO "schedule_triggers" VALUES('stock_levels',0,'94fe0ddc510f43258f07ab83038aa195','event:shipment',0,'2026-11-27 13:51:47.633000');
INSERT INTO "schedule_triggers" VALUES('campaigns',0,'434cf5417a8a49b3ad7bc2f70722f6b6','clock:campaigns:0',0,'2026-11-27 13:51:47.633000');
INSERT INTO "schedule_triggers" VALUES('newer_than_this',0,'7f1c6fb1f9244183bac85fbef21b488a','table:lake.logistics.routes',0,'2026-11-27 13:51:46.633000');
CREATE TABLE schedules (
    name TEXT NOT NULL,
    generation TEXT NOT NULL,
    definition JSON NOT NULL,
    dag_id TEXT NOT NULL,
    priority INTEGER DEFAULT '0' NOT NULL,
    enabled BOOLEAN NOT NULL,
    origin TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    changed_at DATETIME NOT NULL,
    changed_by TEXT,
    CONSTRAINT pk_schedules PRIMARY KEY (name)
);
INSERT INTO "schedules" VALUES('page_views_in_bulk','833247c19c6e4ffba27862775f3dccf1','{"name": "page_views_in_bulk", "dag_id": "maintain_page_views", "trigger": {"any_of": [{"partitions_added": {"table": "analytics.page_views", "count": 5}}, {"bytes_added": {"table": "analytics.page_views", "size": 100000000000}}, {"every": {"period": "PT4H"}}]}, "conf": {"table": "analytics.page_views"}, "constraints": [{"max_concurrent": {"limit": 2, "group": "compaction"}}, {"since_last_run": {"period": "PT5M"}}], "timeout": {"after": "P1D", "then": "discard"}, "priority": 5, "missed": "one", "backlog": "one", "enabled": true, "description": ""}','maintain_page_views',5,1,'hand','2026-11-27 13:51:47.633646','2026-11-27 13:51:47.633646','jana');
INSERT INTO "schedules" VALUES('page_views_report','29c5a8a9c9e24d17976d18440d838309','{"name": "page_views_report", "dag_id": "report_page_views", "trigger": {"runs_succeeded": {"dag_id": "maintain_page_views"}}, "conf": {}, "constraints": [], "timeout": {"after": "P1D", "then": "discard"}, "priority": 0, "missed": "one", "backlog": "one", "enabled": true, "description": "Right after the views have been maintained."}','report_page_views',0,1,'hand','2026-11-27 13:51:47.633646','2026-11-27 13:51:47.633646','jana');
INSERT INTO "schedules" VALUES('sessions_nightly','9236bce191074858b326e0cd4dd6feb6','{"name": "sessions_nightly", "dag_id": "maintain_sessions", "trigger": {"commits_added": {"table": "analytics.sessions"}}, "conf": {}, "constraints": [{"time_window": {"start": "20:51", "end": "04:51"}}, {"max_concurrent": {"limit": 2, "group": "compaction"}}], "timeout": {"after": "P1D", "then": "discard"}, "priority": 0, "missed": "one", "backlog": "one", "enabled": true, "description": ""}','maintain_sessions',0,1,'hand','2026-11-27 13:51:47.633646','2026-11-27 13:51:47.633646','jana');
INSERT INTO "schedules" VALUES('ledger_urgent','c21e67608cce4a8caccb0c3c23d64130','{"name": "ledger_urgent", "dag_id": "close_ledger", "trigger": {"all_of": [{"commits_added": {"table": "payments.transactions"}}, {"commits_added": {"table": "payments.refunds"}}]}, "conf": {}, "constraints": [{"pool_slots": {"pool": "spark"}}], "timeout": {"after": "P1D", "then": "discard"}, "priority": 10, "missed": "one", "backlog": "one", "enabled": true, "description": ""}','close_ledger',10,1,'hand','2026-11-27 13:51:47.633646','2026-11-27 13:51:47.633646','jana');
INSERT INTO "schedules" VALUES('stock_levels','94fe0ddc510f43258f07ab83038aa195','{"name": "stock_levels", "dag_id": "refresh_stock", "trigger": {"custom_events": {"name": "shipment"}}, "conf": {}, "constraints": [{"pool_slots": {"pool": "spark"}}], "timeout": {"after": "P1D", "then": "discard"}, "priority": 0, "missed": "one", "backlog": "one", "enabled": true, "description": ""}','refresh_stock',0,1,'hand','2026-11-27 13:51:47.633646','2026-11-27 13:51:47.633646','jana');
INSERT INTO "schedules" VALUES('campaigns','434cf5417a8a49b3ad7bc2f70722f6b6','{"name": "campaigns", "dag_id": "maintain_paused", "trigger": {"cron": {"expression": "*/30 * * * *"}}, "conf": {}, "constraints": [], "timeout": {"after": "P1D", "then": "discard"}, "priority": 0, "missed": "one", "backlog": "one", "enabled": true, "description": ""}','maintain_paused',0,1,'hand','2026-11-27 13:51:47.633646','2026-11-27 13:51:47.633646','jana');
INSERT INTO "schedules" VALUES('email_clicks','44856622ab2645a2907dd419fbaa5c9b','{"name": "email_clicks", "dag_id": "maintain_page_views", "trigger": {"records_added": {"table": "marketing.email_clicks", "count": 1000000}}, "conf": {}, "constraints": [], "timeout": {"after": "P1D", "then": "discard"}, "priority": 0, "missed": "one", "backlog": "one", "enabled": false, "description": ""}','maintain_page_views',0,0,'hand','2026-11-27 13:51:47.633646','2026-11-27 13:51:47.633646','jana');
INSERT INTO "schedules" VALUES('newer_than_this','7f1c6fb1f9244183bac85fbef21b488a','{"name": "newer_than_this", "dag_id": "maintain_routes", "trigger": {"moon_phase": "full"}}','maintain_routes',0,1,'hand','2026-11-27 13:51:47.633646','2026-11-27 13:51:47.633646','jana');
CREATE TABLE signs_of_life (
    role TEXT NOT NULL,
    instance TEXT NOT NULL,
    started_at DATETIME NOT NULL,
    seen_at DATETIME NOT NULL,
    period_s FLOAT NOT NULL,
    detail JSON NOT NULL,
    CONSTRAINT pk_signs_of_life PRIMARY KEY (role, instance)
);
INSERT INTO "signs_of_life" VALUES('worker','worker-0','2026-11-27 16:51:47.569758','2026-11-27 16:51:47.569758',30.0,'{"host": "host-1"}');
INSERT INTO "signs_of_life" VALUES('worker','worker-1','2026-11-27 16:51:47.569758','2026-11-27 16:51:47.569758',30.0,'{"host": "host-1"}');
INSERT INTO "signs_of_life" VALUES('sweeper','snowpack_sweep.sweep','2026-11-27 16:51:47.569758','2026-11-27 16:51:47.569758',30.0,'{"host": "host-1"}');
INSERT INTO "signs_of_life" VALUES('scheduler','snowpack_dispatcher.dispatch','2026-11-27 16:51:47.569758','2026-11-27 16:51:47.569758',30.0,'{"host": "host-1"}');
INSERT INTO "signs_of_life" VALUES('poller','snowpack_dispatcher.dispatch','2026-11-27 16:51:47.569758','2026-11-27 16:51:47.569758',30.0,'{"host": "host-1"}');
INSERT INTO "signs_of_life" VALUES('collector','snowpack_interim_collector.collect','2026-11-27 16:51:47.569758','2026-11-27 16:51:47.569758',30.0,'{"host": "host-1"}');
INSERT INTO "signs_of_life" VALUES('scheduler','host-1:25746','2026-11-27 16:51:47.633646','2026-11-27 16:51:47.633646',30.0,'{"host": "host-1"}');
CREATE TABLE slot_holds (
    dag_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    amount BIGINT NOT NULL,
    shown_at DATETIME,
    CONSTRAINT pk_slot_holds PRIMARY KEY (dag_id, run_id, "key")
);
INSERT INTO "slot_holds" VALUES('close_ledger','snowpack__ledger_urgent__20261127T164047__eed8e5cd9652','pool:spark',1,NULL);
CREATE TABLE snowpack_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT snowpack_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "snowpack_version" VALUES('0026_baseline');
CREATE TABLE source_problems (
    "key" TEXT NOT NULL,
    kind TEXT NOT NULL,
    problem TEXT NOT NULL,
    began_at DATETIME NOT NULL,
    confirmed_at DATETIME NOT NULL,
    CONSTRAINT pk_source_problems PRIMARY KEY ("key")
);
CREATE TABLE store_facts (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    CONSTRAINT pk_store_facts PRIMARY KEY (name)
);
CREATE TABLE switches (
    name TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    changed_at DATETIME NOT NULL,
    changed_by TEXT,
    reason TEXT,
    CONSTRAINT pk_switches PRIMARY KEY (name)
);
CREATE TABLE table_health (
    table_key TEXT NOT NULL,
    catalog TEXT NOT NULL,
    table_name TEXT NOT NULL,
    metadata_location TEXT NOT NULL,
    read_at DATETIME NOT NULL,
    score INTEGER,
    problem TEXT,
    format INTEGER,
    document TEXT,
    CONSTRAINT pk_table_health PRIMARY KEY (table_key)
);
CREATE TABLE table_health_history (
    table_key TEXT NOT NULL,
    read_at DATETIME NOT NULL,
    metadata_location TEXT NOT NULL,
    last_of_day BOOLEAN NOT NULL,
    score INTEGER NOT NULL,
    data_files BIGINT NOT NULL,
    small_files BIGINT NOT NULL,
    delete_files BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    records BIGINT NOT NULL,
    manifests BIGINT NOT NULL,
    snapshots BIGINT NOT NULL,
    CONSTRAINT pk_table_health_history PRIMARY KEY (table_key, read_at)
);
CREATE TABLE table_locations (
    catalog TEXT NOT NULL,
    identifier TEXT NOT NULL,
    metadata_location TEXT NOT NULL,
    footprint JSON NOT NULL,
    read_at DATETIME NOT NULL,
    "database" TEXT NOT NULL,
    CONSTRAINT pk_table_locations PRIMARY KEY (catalog, identifier)
);
CREATE TABLE table_locks (
    table_key TEXT NOT NULL,
    catalog TEXT NOT NULL,
    database_name TEXT NOT NULL,
    table_name TEXT NOT NULL,
    holder TEXT NOT NULL,
    acquired_at DATETIME NOT NULL,
    expires_at DATETIME NOT NULL,
    catalog_id TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_table_locks PRIMARY KEY (table_key)
);
INSERT INTO "table_locks" VALUES('lake.analytics.events_raw','lake','analytics','events_raw','0aca12f48a6444678d48991a72d84472','2026-11-27 16:37:47.569758','2026-11-27 17:17:10.769758','');
INSERT INTO "table_locks" VALUES('lake.logistics.shipments','lake','logistics','shipments','01aa5223ebe54371a89f3c0e9bf4c80d','2026-11-27 16:45:47.569758','2026-11-27 17:16:56.569758','');
INSERT INTO "table_locks" VALUES('lake.logistics.routes','lake','logistics','routes','ab465b3c32184e02a53deb2f14c948f3','2026-11-27 16:49:47.569758','2026-11-27 17:19:47.569758','');
INSERT INTO "table_locks" VALUES('lake.analytics.sessions','lake','analytics','sessions','8ac7f4eb2f354dd3ac3a9cbf366a0d51','2026-11-27 16:49:54.569758','2026-11-27 17:19:54.569758','');
INSERT INTO "table_locks" VALUES('lake.marketing.email_clicks','lake','marketing','email_clicks','773748e4bb6f43de8a33e47c053f5262','2026-11-27 16:50:01.569758','2026-11-27 17:20:01.569758','');
INSERT INTO "table_locks" VALUES('lake.payments.ledger_entries','lake','payments','ledger_entries','etl/ledger_close/2026-11','2026-11-27 16:50:08.569758','2026-11-27 18:50:08.569758','');
CREATE TABLE table_places (
    table_key TEXT NOT NULL,
    snapshot_id BIGINT,
    sequence BIGINT NOT NULL,
    committed_at DATETIME,
    read_at DATETIME NOT NULL,
    table_uuid TEXT,
    total_records BIGINT,
    other_heads JSON,
    metadata_location TEXT,
    look_at DATETIME,
    CONSTRAINT pk_table_places PRIMARY KEY (table_key)
);
CREATE INDEX ix_action_records_last_run_at ON action_records (last_run_at);
CREATE INDEX ix_audit_trail_subject ON audit_trail (subject);
CREATE INDEX ix_build_publications_open ON build_publications (dataset) WHERE done_at IS NULL;
CREATE INDEX ix_build_publications_done_at ON build_publications (done_at) WHERE done_at IS NOT NULL;
CREATE INDEX ix_build_runs_dataset_as_of_sequence ON build_runs (dataset, as_of, sequence);
CREATE INDEX ix_build_runs_deleted_at ON build_runs (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX ix_build_runs_running ON build_runs (dataset, started_at) WHERE status = 'running';
CREATE INDEX ix_build_runs_cleanup ON build_runs (dataset, cleanup_at) WHERE cleanup_at IS NOT NULL;
CREATE INDEX ix_build_runs_kept ON build_runs (dataset, as_of, sequence) WHERE status = 'succeeded' AND deleted_at IS NULL;
CREATE INDEX ix_events_recorded_at ON events (recorded_at);
CREATE INDEX ix_events_key_id ON events ("key", id);
CREATE INDEX ix_fleet_entries_table_key_pass_id ON fleet_entries (table_key, pass_id);
CREATE INDEX ix_fleet_entries_job_id ON fleet_entries (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX ix_fleet_passes_started_at_pass_id ON fleet_passes (started_at, pass_id);
CREATE UNIQUE INDEX ix_fleet_passes_open ON fleet_passes (owner) WHERE ended_at IS NULL;
CREATE INDEX ix_fleet_tables_catalog_catalog_id ON fleet_tables (catalog, catalog_id);
CREATE INDEX ix_gated_runs_dag_id_passed_at ON gated_runs (dag_id, passed_at);
CREATE INDEX ix_gated_runs_active ON gated_runs (dag_id) WHERE ended_at IS NULL;
CREATE INDEX ix_gated_runs_waits_for ON gated_runs (waits_for) WHERE waits_for IS NOT NULL;
CREATE INDEX ix_gated_runs_ended_at ON gated_runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX ix_idempotency_keys_at ON idempotency_keys (at);
CREATE INDEX ix_image_attempts_key_started_at ON image_attempts ("key", started_at);
CREATE INDEX ix_image_builds_requested_at_key ON image_builds (requested_at, "key");
CREATE INDEX ix_image_builds_used_at_key ON image_builds (used_at, "key");
CREATE INDEX ix_interim_names_table_id ON interim_names (table_id);
CREATE INDEX ix_interim_names_run_key ON interim_names (run_key);
CREATE INDEX ix_interim_pins_run_key_task_id ON interim_pins (run_key, task_id);
CREATE INDEX ix_interim_refs_run_key ON interim_refs (run_key);
CREATE INDEX ix_interim_refs_table_id ON interim_refs (table_id);
CREATE INDEX ix_interim_runs_check_at ON interim_runs (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX ix_interim_tables_run ON interim_tables (run_key, task_id, map_index, output);
CREATE INDEX ix_interim_tables_created_at_table_id ON interim_tables (created_at, table_id);
CREATE INDEX ix_interim_tables_dropping ON interim_tables (visible_at) WHERE state = 'dropping';
CREATE INDEX ix_job_history_job_id ON job_history (job_id);
CREATE INDEX ix_job_queue_unclaimed ON job_queue (catalog_id, rank, turn, enqueued_at) WHERE claimed_at IS NULL;
CREATE INDEX ix_job_queue_turns ON job_queue (catalog_id, rank, database_name, turn) WHERE claimed_at IS NULL;
CREATE INDEX ix_jobs_submitted_at_job_id ON jobs (submitted_at, job_id) WHERE deleted_at IS NULL;
CREATE INDEX ix_jobs_table_key_submitted_at_job_id ON jobs (table_key, submitted_at, job_id) WHERE deleted_at IS NULL;
CREATE INDEX ix_jobs_with_error ON jobs (submitted_at, job_id) WHERE deleted_at IS NULL AND error IS NOT NULL;
CREATE INDEX ix_jobs_dry_runs ON jobs (table_key, catalog_id, submitted_at, job_id) WHERE deleted_at IS NULL AND dry_run = 1;
CREATE INDEX ix_jobs_deleted ON jobs (submitted_at, job_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX ix_jobs_owner ON jobs (owner) WHERE owner IS NOT NULL;
CREATE INDEX ix_jobs_dag ON jobs (substr(owner, 1, instr(owner, '/')), submitted_at, job_id) WHERE deleted_at IS NULL AND owner IS NOT NULL;
CREATE INDEX ix_launches_schedule ON launches (schedule);
CREATE INDEX ix_launches_absorbing ON launches (schedule) WHERE absorbs AND claimed_at IS NULL;
CREATE INDEX ix_launches_unclaimed ON launches (enqueued_at) WHERE claimed_at IS NULL;
CREATE INDEX ix_operation_edges_last_at ON operation_edges (last_at);
CREATE INDEX ix_operation_edges_source_last_at ON operation_edges (source, last_at);
CREATE INDEX ix_operation_edges_target_last_at ON operation_edges (target, last_at);
CREATE INDEX ix_operation_tables_name_role_at ON operation_tables (name, role, at);
CREATE INDEX ix_operations_at ON operations (at);
CREATE INDEX ix_operations_task ON operations (dag_id, run_id, task_id) WHERE dag_id IS NOT NULL;
CREATE INDEX ix_pending_jobs_schedule_created_at ON pending_jobs (schedule, created_at);
CREATE INDEX ix_pending_jobs_ended_at ON pending_jobs (ended_at);
CREATE UNIQUE INDEX ux_pending_jobs_open ON pending_jobs (schedule, generation) WHERE state IN ('pending_trigger', 'pending_constraint');
CREATE INDEX ix_pending_jobs_due ON pending_jobs (next_check_at) WHERE state IN ('pending_trigger', 'pending_constraint');
CREATE INDEX ix_pending_jobs_waits_for ON pending_jobs (waits_for, priority) WHERE state IN ('pending_trigger', 'pending_constraint') AND waits_for IS NOT NULL;
CREATE INDEX ix_removals_planned_at_removal_id ON removals (planned_at, removal_id);
CREATE INDEX ix_removals_table_key_planned_at_removal_id ON removals (table_key, planned_at, removal_id);
CREATE INDEX ix_removals_planned_by_job ON removals (planned_by_job);
CREATE INDEX ix_run_places_look_at ON run_places (look_at);
CREATE INDEX ix_schedule_clocks_look_at ON schedule_clocks (look_at);
CREATE INDEX ix_schedule_dags_dag_id ON schedule_dags (dag_id);
CREATE INDEX ix_schedule_groups_group_name ON schedule_groups (group_name);
CREATE INDEX ix_schedule_groups_dag_id ON schedule_groups (dag_id);
CREATE INDEX ix_schedule_history_schedule_id ON schedule_history (schedule, id);
CREATE INDEX ix_schedule_runs_schedule_reserved_at ON schedule_runs (schedule, reserved_at);
CREATE INDEX ix_schedule_runs_reserved_at ON schedule_runs (reserved_at);
CREATE INDEX ix_schedule_runs_active ON schedule_runs (dag_id) WHERE ended_at IS NULL;
CREATE INDEX ix_schedule_triggers_event_key ON schedule_triggers (event_key);
CREATE INDEX ix_schedules_dag_id ON schedules (dag_id);
CREATE INDEX ix_slot_holds_key ON slot_holds ("key");
CREATE INDEX ix_table_health_read_at ON table_health (read_at, table_key);
CREATE INDEX ix_table_health_catalog_score ON table_health (catalog, score, table_key);
CREATE INDEX ix_table_health_history_read_at ON table_health_history (read_at, table_key);
CREATE INDEX ix_table_health_history_thinned ON table_health_history (table_key, read_at) WHERE NOT last_of_day;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',16);
COMMIT;
