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
CREATE INDEX ix_action_records_last_run_at ON action_records (last_run_at);
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
CREATE INDEX ix_audit_trail_subject ON audit_trail (subject);
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
CREATE INDEX ix_build_publications_open ON build_publications (dataset) WHERE done_at IS NULL;
CREATE INDEX ix_build_publications_done_at ON build_publications (done_at) WHERE done_at IS NOT NULL;
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
CREATE INDEX ix_build_runs_dataset_as_of_sequence ON build_runs (dataset, as_of, sequence);
CREATE INDEX ix_build_runs_deleted_at ON build_runs (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX ix_build_runs_running ON build_runs (dataset, started_at) WHERE status = 'running';
CREATE INDEX ix_build_runs_cleanup ON build_runs (dataset, cleanup_at) WHERE cleanup_at IS NOT NULL;
CREATE INDEX ix_build_runs_kept ON build_runs (dataset, as_of, sequence) WHERE status = 'succeeded' AND deleted_at IS NULL;
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
CREATE TABLE dag_successes (
    dag_id TEXT NOT NULL,
    ended_at DATETIME NOT NULL,
    run_id TEXT NOT NULL,
    CONSTRAINT pk_dag_successes PRIMARY KEY (dag_id)
);
CREATE TABLE event_cursors (
    name TEXT NOT NULL,
    position BIGINT NOT NULL,
    CONSTRAINT pk_event_cursors PRIMARY KEY (name)
);
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
CREATE INDEX ix_events_recorded_at ON events (recorded_at);
CREATE INDEX ix_events_key_id ON events ("key", id);
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
CREATE INDEX ix_fleet_entries_table_key_pass_id ON fleet_entries (table_key, pass_id);
CREATE INDEX ix_fleet_entries_job_id ON fleet_entries (job_id) WHERE job_id IS NOT NULL;
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
CREATE INDEX ix_fleet_passes_started_at_pass_id ON fleet_passes (started_at, pass_id);
CREATE UNIQUE INDEX ix_fleet_passes_open ON fleet_passes (owner) WHERE ended_at IS NULL;
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
CREATE INDEX ix_fleet_tables_catalog_catalog_id ON fleet_tables (catalog, catalog_id);
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
CREATE INDEX ix_gated_runs_dag_id_passed_at ON gated_runs (dag_id, passed_at);
CREATE INDEX ix_gated_runs_active ON gated_runs (dag_id) WHERE ended_at IS NULL;
CREATE INDEX ix_gated_runs_waits_for ON gated_runs (waits_for) WHERE waits_for IS NOT NULL;
CREATE INDEX ix_gated_runs_ended_at ON gated_runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE TABLE idempotency_keys (
    actor TEXT NOT NULL,
    "key" TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    job_id TEXT NOT NULL,
    at DATETIME NOT NULL,
    CONSTRAINT pk_idempotency_keys PRIMARY KEY (actor, "key")
);
CREATE INDEX ix_idempotency_keys_at ON idempotency_keys (at);
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
CREATE INDEX ix_image_attempts_key_started_at ON image_attempts ("key", started_at);
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
CREATE INDEX ix_image_builds_requested_at_key ON image_builds (requested_at, "key");
CREATE INDEX ix_image_builds_used_at_key ON image_builds (used_at, "key");
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
CREATE INDEX ix_interim_names_table_id ON interim_names (table_id);
CREATE INDEX ix_interim_names_run_key ON interim_names (run_key);
CREATE TABLE interim_pins (
    table_id TEXT NOT NULL,
    run_key TEXT NOT NULL,
    task_id TEXT NOT NULL,
    asked_by TEXT,
    CONSTRAINT pk_interim_pins PRIMARY KEY (table_id, run_key, task_id)
);
CREATE INDEX ix_interim_pins_run_key_task_id ON interim_pins (run_key, task_id);
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
CREATE INDEX ix_interim_refs_run_key ON interim_refs (run_key);
CREATE INDEX ix_interim_refs_table_id ON interim_refs (table_id);
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
CREATE INDEX ix_interim_runs_check_at ON interim_runs (check_at) WHERE check_at IS NOT NULL;
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
CREATE INDEX ix_interim_tables_run ON interim_tables (run_key, task_id, map_index, output);
CREATE INDEX ix_interim_tables_created_at_table_id ON interim_tables (created_at, table_id);
CREATE INDEX ix_interim_tables_dropping ON interim_tables (visible_at) WHERE state = 'dropping';
CREATE TABLE inventory_refreshes (
    catalog TEXT NOT NULL,
    tried_at DATETIME NOT NULL,
    refreshed_at DATETIME,
    problem TEXT,
    left_out JSON,
    CONSTRAINT pk_inventory_refreshes PRIMARY KEY (catalog)
);
CREATE TABLE inventory_tables (
    table_key TEXT NOT NULL,
    catalog TEXT NOT NULL,
    database_name TEXT NOT NULL,
    table_name TEXT NOT NULL,
    first_seen_at DATETIME NOT NULL,
    CONSTRAINT pk_inventory_tables PRIMARY KEY (table_key)
);
CREATE TABLE job_history (
    id INTEGER NOT NULL,
    job_id TEXT NOT NULL,
    at DATETIME NOT NULL,
    event TEXT NOT NULL,
    attempt_id TEXT,
    detail JSON NOT NULL,
    CONSTRAINT pk_job_history PRIMARY KEY (id)
);
CREATE INDEX ix_job_history_job_id ON job_history (job_id);
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
CREATE INDEX ix_job_queue_unclaimed ON job_queue (catalog_id, rank, turn, enqueued_at) WHERE claimed_at IS NULL;
CREATE INDEX ix_job_queue_turns ON job_queue (catalog_id, rank, database_name, turn) WHERE claimed_at IS NULL;
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
CREATE INDEX ix_jobs_submitted_at_job_id ON jobs (submitted_at, job_id) WHERE deleted_at IS NULL;
CREATE INDEX ix_jobs_table_key_submitted_at_job_id ON jobs (table_key, submitted_at, job_id) WHERE deleted_at IS NULL;
CREATE INDEX ix_jobs_with_error ON jobs (submitted_at, job_id) WHERE deleted_at IS NULL AND error IS NOT NULL;
CREATE INDEX ix_jobs_dry_runs ON jobs (table_key, catalog_id, submitted_at, job_id) WHERE deleted_at IS NULL AND dry_run = 1;
CREATE INDEX ix_jobs_deleted ON jobs (submitted_at, job_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX ix_jobs_owner ON jobs (owner) WHERE owner IS NOT NULL;
CREATE INDEX ix_jobs_dag ON jobs (substr(owner, 1, instr(owner, '/')), submitted_at, job_id) WHERE deleted_at IS NULL AND owner IS NOT NULL;
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
CREATE INDEX ix_launches_schedule ON launches (schedule);
CREATE INDEX ix_launches_absorbing ON launches (schedule) WHERE absorbs AND claimed_at IS NULL;
CREATE INDEX ix_launches_unclaimed ON launches (enqueued_at) WHERE claimed_at IS NULL;
CREATE TABLE operation_edges (
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    operations BIGINT NOT NULL,
    first_at DATETIME NOT NULL,
    last_at DATETIME NOT NULL,
    CONSTRAINT pk_operation_edges PRIMARY KEY (source, target)
);
CREATE INDEX ix_operation_edges_last_at ON operation_edges (last_at);
CREATE INDEX ix_operation_edges_source_last_at ON operation_edges (source, last_at);
CREATE INDEX ix_operation_edges_target_last_at ON operation_edges (target, last_at);
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
CREATE INDEX ix_operation_tables_name_role_at ON operation_tables (name, role, at);
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
CREATE INDEX ix_operations_at ON operations (at);
CREATE INDEX ix_operations_task ON operations (dag_id, run_id, task_id) WHERE dag_id IS NOT NULL;
CREATE TABLE pending_events (
    pending_id TEXT NOT NULL,
    event_id BIGINT NOT NULL,
    leaf INTEGER NOT NULL,
    CONSTRAINT pk_pending_events PRIMARY KEY (pending_id, event_id, leaf)
);
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
CREATE INDEX ix_pending_jobs_schedule_created_at ON pending_jobs (schedule, created_at);
CREATE INDEX ix_pending_jobs_ended_at ON pending_jobs (ended_at);
CREATE UNIQUE INDEX ux_pending_jobs_open ON pending_jobs (schedule, generation) WHERE state IN ('pending_trigger', 'pending_constraint');
CREATE INDEX ix_pending_jobs_due ON pending_jobs (next_check_at) WHERE state IN ('pending_trigger', 'pending_constraint');
CREATE INDEX ix_pending_jobs_waits_for ON pending_jobs (waits_for, priority) WHERE state IN ('pending_trigger', 'pending_constraint') AND waits_for IS NOT NULL;
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
CREATE INDEX ix_removals_planned_at_removal_id ON removals (planned_at, removal_id);
CREATE INDEX ix_removals_table_key_planned_at_removal_id ON removals (table_key, planned_at, removal_id);
CREATE INDEX ix_removals_planned_by_job ON removals (planned_by_job);
CREATE TABLE run_places (
    dag_id TEXT NOT NULL,
    since DATETIME NOT NULL,
    look_at DATETIME NOT NULL,
    mark JSON NOT NULL,
    CONSTRAINT pk_run_places PRIMARY KEY (dag_id)
);
CREATE INDEX ix_run_places_look_at ON run_places (look_at);
CREATE TABLE schedule_clocks (
    schedule TEXT NOT NULL,
    leaf INTEGER NOT NULL,
    next_at DATETIME NOT NULL,
    look_at DATETIME NOT NULL,
    CONSTRAINT pk_schedule_clocks PRIMARY KEY (schedule, leaf)
);
CREATE INDEX ix_schedule_clocks_look_at ON schedule_clocks (look_at);
CREATE TABLE schedule_dags (
    schedule TEXT NOT NULL,
    dag_id TEXT NOT NULL,
    CONSTRAINT pk_schedule_dags PRIMARY KEY (schedule, dag_id)
);
CREATE INDEX ix_schedule_dags_dag_id ON schedule_dags (dag_id);
CREATE TABLE schedule_groups (
    schedule TEXT NOT NULL,
    group_name TEXT NOT NULL,
    dag_id TEXT NOT NULL,
    CONSTRAINT pk_schedule_groups PRIMARY KEY (schedule, group_name)
);
CREATE INDEX ix_schedule_groups_group_name ON schedule_groups (group_name);
CREATE INDEX ix_schedule_groups_dag_id ON schedule_groups (dag_id);
CREATE TABLE schedule_history (
    id INTEGER NOT NULL,
    schedule TEXT NOT NULL,
    at DATETIME NOT NULL,
    what TEXT NOT NULL,
    pending_id TEXT,
    detail JSON NOT NULL,
    CONSTRAINT pk_schedule_history PRIMARY KEY (id)
);
CREATE INDEX ix_schedule_history_schedule_id ON schedule_history (schedule, id);
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
CREATE INDEX ix_schedule_runs_schedule_reserved_at ON schedule_runs (schedule, reserved_at);
CREATE INDEX ix_schedule_runs_reserved_at ON schedule_runs (reserved_at);
CREATE INDEX ix_schedule_runs_active ON schedule_runs (dag_id) WHERE ended_at IS NULL;
CREATE TABLE schedule_triggers (
    schedule TEXT NOT NULL,
    leaf INTEGER NOT NULL,
    generation TEXT NOT NULL,
    event_key TEXT NOT NULL,
    counts_after BIGINT NOT NULL,
    counts_from DATETIME NOT NULL,
    CONSTRAINT pk_schedule_triggers PRIMARY KEY (schedule, leaf)
);
CREATE INDEX ix_schedule_triggers_event_key ON schedule_triggers (event_key);
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
CREATE INDEX ix_schedules_dag_id ON schedules (dag_id);
CREATE TABLE signs_of_life (
    role TEXT NOT NULL,
    instance TEXT NOT NULL,
    started_at DATETIME NOT NULL,
    seen_at DATETIME NOT NULL,
    period_s FLOAT NOT NULL,
    detail JSON NOT NULL,
    CONSTRAINT pk_signs_of_life PRIMARY KEY (role, instance)
);
CREATE TABLE slot_holds (
    dag_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    amount BIGINT NOT NULL,
    shown_at DATETIME,
    CONSTRAINT pk_slot_holds PRIMARY KEY (dag_id, run_id, "key")
);
CREATE INDEX ix_slot_holds_key ON slot_holds ("key");
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
CREATE INDEX ix_table_health_read_at ON table_health (read_at, table_key);
CREATE INDEX ix_table_health_catalog_score ON table_health (catalog, score, table_key);
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
CREATE INDEX ix_table_health_history_read_at ON table_health_history (read_at, table_key);
CREATE INDEX ix_table_health_history_thinned ON table_health_history (table_key, read_at) WHERE NOT last_of_day;
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
