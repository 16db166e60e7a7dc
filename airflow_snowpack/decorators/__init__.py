"""The task decorators that DAG authors reach as ``@task.snowpack``."""
