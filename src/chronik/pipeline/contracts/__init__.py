"""Contracts: counts how many of a topic's stored records a schema would refuse, by rule, with the first record of each.

Most records are judged column by column (`facts`); records that columns cannot decide are judged one by one. Both
methods agree, and the second one can judge every record.
"""
