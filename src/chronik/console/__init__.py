"""The web console: a JSON API beside the brokers, and the pages that use it.

docs/reference/console-api.md is the contract between the two, and for scripts.

It runs in a process of its own and reaches a cluster as any client does: by the Kafka protocol through
`chronik.client`, and by the nodes' admin listeners. Nothing of it runs in a broker.

What needs no I/O is apart from what does: `prometheus`, `ring`, `rates`, `attention`, `events`, `cursors`, `shown`,
`gate` and `sessions` are pure. `observer`, `reading`, `tailing` and `routes` ask the cluster.
"""
