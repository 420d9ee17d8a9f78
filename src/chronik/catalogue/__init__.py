"""Every configuration key, defined once: name, type, default, limits, how it can change, and its description.

Parsing, DescribeConfigs, AlterConfigs, docs/reference/configuration.md, settings of logs and defaults of topics and
groups are derived from these tables. The package holds data and parses values; it performs no I/O.
"""
