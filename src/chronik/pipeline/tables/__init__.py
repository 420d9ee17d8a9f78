"""Topics as Delta tables: appended exactly once, or kept by key.

`table` is the interface for Spark, format("chronik-table"). Below it `files` writes Parquet, `transactions` is the only
way to commit a batch, and `appending` and `upserting` use it. `order` defines which row of a key is kept, `deletions`
stores what a keyed table remembers. `rewriting` merges in Spark what is too large for one process, `maintenance`
compacts and vacuums. Only `table`, `provenance` and `rewriting` import pyspark.
"""
