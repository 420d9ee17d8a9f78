"""Prevents a node from writing what an older release in the cluster cannot read.

The level of the feature `chronik.format` limits what nodes may write: to the metadata log, to data directories, and to
each other. Every release reads all levels up to its own. A new cluster begins with the newest level. An upgraded
cluster keeps its level, and can go back to the previous release, until something newer is first used. Then the
controller raises the level if every registered broker supports it, and otherwise refuses. From then on, a broker that
does not support the level cannot register.

A new kind of record, or a new meaning of a file, takes the next level here.
"""

from __future__ import annotations

from collections.abc import Iterable

from chronik.metadata.errors import refuse
from chronik.metadata.image import View
from chronik.metadata.records import (
    AccessRuleRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveAccessRuleRecord,
    RemoveDelegationTokenRecord,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
    ScramSecretRecord,
)
from chronik.wire.error_codes import ErrorCode

FORMAT_FEATURE = "chronik.format"

FIRST = 1  # also the level of a cluster that names none
SECURITY_AND_TRANSACTIONS = 2  # users, access rules, quotas, tokens; transactions, with their markers and indexes
NEWEST = SECURITY_AND_TRANSACTIONS

LEVEL_OF: dict[type[MetadataRecord], int] = {
    AccessRuleRecord: SECURITY_AND_TRANSACTIONS,
    RemoveAccessRuleRecord: SECURITY_AND_TRANSACTIONS,
    ClientQuotaRecord: SECURITY_AND_TRANSACTIONS,
    ScramCredentialRecord: SECURITY_AND_TRANSACTIONS,
    RemoveScramCredentialRecord: SECURITY_AND_TRANSACTIONS,
    ScramSecretRecord: SECURITY_AND_TRANSACTIONS,
    DelegationTokenRecord: SECURITY_AND_TRANSACTIONS,
    RemoveDelegationTokenRecord: SECURITY_AND_TRANSACTIONS,
}


def level_of(view: View) -> int:
    return view.features.get(FORMAT_FEATURE, FIRST)


def raised_for(view: View, records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
    """The records to write before these, so that every node can read them.

    Raises MetadataRefused if a registered broker is too old.
    """
    needed = max((LEVEL_OF.get(type(record), FIRST) for record in records), default=FIRST)
    return _raised_to(view, needed) if needed > level_of(view) else []


def _raised_to(view: View, level: int) -> list[MetadataRecord]:
    for broker_id, broker in sorted(view.brokers.items()):
        supported = broker.features.get(FORMAT_FEATURE)
        if supported is None or supported.level_max < level:
            refuse(
                ErrorCode.UNSUPPORTED_VERSION,
                f"node {broker_id} runs an older release, which cannot read what this would write: upgrade it first",
            )
    return [FeatureLevelRecord(name=FORMAT_FEATURE, level=level)]
