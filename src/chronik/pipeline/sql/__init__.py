"""SQL over topics and tables, in this process and without Spark: DuckDB reads streams of Arrow batches.

`parsing` finds the names in a query, `relations` resolves them, `running` executes the query; `with_spark` uses Spark.
"""
