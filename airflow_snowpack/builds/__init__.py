"""Sharded snapshot builds: attempts, winners, manifest, run registry, and cleanup in three phases."""
