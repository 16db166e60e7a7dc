"""The collector and the sweeper: they drop interim tables that no task needs any more."""
