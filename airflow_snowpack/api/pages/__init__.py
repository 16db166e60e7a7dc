"""The pages: tables, jobs, a job, locks, the queue, the audit trail."""
