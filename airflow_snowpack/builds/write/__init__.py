"""Write the shards of a run, with or without Spark, and select the winning attempt of each shard."""
