"""The share coordinator: which records of which partitions each share group has done with, in `__share_group_state`."""
