"""The pages: tables, jobs, a job, locks, the queue, the audit trail.

HTML is made on the server, one file for each page; ``templates/`` holds the markup, ``static/`` one stylesheet and two scripts,
written by hand and served as they are. A page only reads. What changes something is done by its script, which calls the REST API
like any other client; so there is one place that checks, refuses and audits.
"""
