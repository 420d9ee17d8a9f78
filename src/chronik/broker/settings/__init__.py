"""A node's configuration: Kafka's keys in, one typed object out."""

from chronik.broker.settings.listeners import Listener, Voter
from chronik.broker.settings.settings import Settings
from chronik.runtime.machine import Machine

__all__ = ["Listener", "Machine", "Settings", "Voter"]
