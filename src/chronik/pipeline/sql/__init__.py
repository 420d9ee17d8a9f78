"""SQL over topics and tables, in this process and without Spark: DuckDB reads what Arrow streams.

`parsing` tells what a query names, `relations` finds it, `running` puts both together; `with_spark` asks Spark instead.
"""
