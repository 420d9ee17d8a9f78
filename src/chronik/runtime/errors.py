"""What the machine may refuse."""


class RuntimeFault(Exception):
    """Base of all faults of the machine."""


class DiskFull(RuntimeFault):
    """No space: nothing of the write was kept. Appends may be tried again when space is back."""


class DiskInUse(RuntimeFault):
    """Another process holds the data directory."""
