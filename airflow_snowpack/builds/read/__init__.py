"""Read published builds: by key, by scan, as a Spark DataFrame, and to verify every shard."""
