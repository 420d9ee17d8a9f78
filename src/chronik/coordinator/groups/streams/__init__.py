"""Streams groups, as KIP-1071 defines them: the coordinator keeps a Kafka Streams topology and assigns its tasks."""
