"""Backups of a lakehouse that are consistent while runs go on, and restoring from them."""

from keyfold.maintenance.backup.backups import Backup, Restored, back_up, list_backups, restore

__all__ = ["Backup", "Restored", "back_up", "list_backups", "restore"]
