"""Consumer groups, as KIP-848 defines them: the coordinator assigns partitions, and members follow by heartbeats."""
