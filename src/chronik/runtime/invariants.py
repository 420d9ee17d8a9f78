"""`check` guards what must never be false. Unlike `assert` it stays under -O; what it raises stops the node.

Bytes from outside are never checked this way: they are answered with an error.
"""


class InvariantBroken(Exception):
    """A bug of ours. The node stops rather than go on with state it cannot trust."""


def check(holds: bool, promise: str) -> None:
    if not holds:
        raise InvariantBroken(promise)
