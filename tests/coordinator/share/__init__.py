"""The share coordinator and the coordinator of share groups."""
