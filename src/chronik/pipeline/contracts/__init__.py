"""Contracts: how many of a topic's stored records a schema would refuse, by which rule, and which is the first.

Most records are judged column by column (`facts`); what columns cannot decide, record by record. Both give the same
answer; the second alone gives all of it.
"""
