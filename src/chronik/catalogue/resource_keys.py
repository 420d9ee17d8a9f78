"""Defines keys of topics and groups: independent ones, or ones whose default comes from a broker key.

A key that inherits takes type, default and limits from its broker keys, so each is defined in one place.
"""

from __future__ import annotations

from chronik.catalogue.broker_keys import BROKER_KEYS
from chronik.catalogue.definitions import Definition, Rule, Synonym, UpdateMode
from chronik.catalogue.notation import read_row


def own(row: str, words: str, *, rule: Rule | None = None, is_idle: bool = False) -> Definition:
    """A key without a broker key. The row holds its name, type, default and allowed values."""
    name, config_type, default, *allowed = row.split()
    definition = read_row(" ".join([name, config_type, default, UpdateMode.CLUSTER_WIDE, *allowed]), "", words)
    return definition._replace(rule=rule, is_idle=is_idle)


def inherits(name: str, words: str, *synonyms: str | Synonym, allowed: str | None = None) -> Definition:
    """A key whose default is the value of the first broker key that has one; type and limits are the first one's."""
    known = tuple(Synonym(each) if isinstance(each, str) else each for each in synonyms)
    first = BROKER_KEYS[known[0].key]
    defaults = (in_own_unit(BROKER_KEYS[each.key].default, each) for each in known)
    return Definition(
        name=name,
        type=first.type,
        default=next(default for default in defaults if default is not None),
        mode=UpdateMode.CLUSTER_WIDE,
        allowed=first.allowed if allowed is None else (allowed,),
        words=words,
        section="",
        synonyms=known,
        is_idle=not first.has_effect,
    )


def in_own_unit(text: str | None, synonym: Synonym) -> str | None:
    """The value of a broker key in the unit of the inheriting key."""
    if text is None or (synonym.factor == 1 and synonym.floor is None):
        return text
    value = int(text) * synonym.factor
    return str(value if synonym.floor is None else max(value, synonym.floor))
