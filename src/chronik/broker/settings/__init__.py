"""A node's configuration: Kafka's keys in, one typed object out."""

from chronik.broker.settings.listeners import Listener, Voter
from chronik.broker.settings.machine import Machine
from chronik.broker.settings.settings import Settings

__all__ = ["Listener", "Machine", "Settings", "Voter"]
