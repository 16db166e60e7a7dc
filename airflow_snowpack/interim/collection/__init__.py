"""The collector and the sweeper, which drop interim tables that no task needs any more."""
