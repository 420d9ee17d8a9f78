"""Client quotas: what users, client ids and addresses may use of this node, and how long they must wait for more."""
