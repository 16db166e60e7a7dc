"""One description of each resource: its JSON, its OpenAPI schema and its columns on the command line.

A file for each resource has its shapes (``JobShape.encode(job)`` is the JSON of a job, and the class is its schema) and its
listings (the columns of ``jobs list``). The API's routes and the commands use the same ones, so that both print the same JSON.
"""
