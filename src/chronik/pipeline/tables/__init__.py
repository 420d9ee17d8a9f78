"""Topics as Delta tables: appended exactly once, or kept by key.

`table` is what Spark sees, format("chronik-table"). Below it `files` writes Parquet, `transactions` is the one way a
batch enters a table, and `appending` and `upserting` use it. `order` is the rule which row of a key stands, `deletions`
is what a keyed table remembers. `rewriting` does in Spark what is too large to merge in one process, `maintenance`
compacts and vacuums. Only `table`, `provenance` and `rewriting` import pyspark.
"""
