"""Read published builds: by key, by scan, as a Spark DataFrame; and verify every shard."""
