"""The errors of backups. The whole tree:

BackupError
  NotABackup       the directory holds something else, or a backup that was never completed
  Damaged          a file of the backup was altered; names the file
  DoesNotContinue  the cluster is not the one in the backup, or its log went back
  NotRestorable    the target cannot take the backup as it is; nothing was changed
  RestoreFailed    the restore stopped; names the topics that are incomplete
"""

from __future__ import annotations


class BackupError(Exception):
    """Base: the message says what happened, where, and what to do."""


class NotABackup(BackupError):
    """There is no manifest, or it has another format."""


class Damaged(BackupError):
    """Bytes were changed, lost or added."""


class DoesNotContinue(BackupError):
    """Appending would join two histories."""


class NotRestorable(BackupError):
    """Detected before anything was changed."""


class RestoreFailed(BackupError):
    """Detected while topics were written."""
