"""The task decorators behind ``@task.snowpack``."""
