"""Every configuration key, defined once: name, type, default, limits, how it can change, and what it does.

Parsing, DescribeConfigs, AlterConfigs, docs/reference/configuration.md, settings of logs and defaults of topics and
groups are derived from these tables. The package holds data and the reading of values; it performs no I/O.
"""
