"""Write the shards of a run, with Spark or without it, and select the attempt that counts at each shard."""
