"""Share groups on the leader of a partition (KIP-932): who holds which record, and the sessions of members."""
