"""The transaction coordinator: the state of every transactional id, kept in `__transaction_state`."""
