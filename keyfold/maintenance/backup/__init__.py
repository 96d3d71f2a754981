"""Make consistent backups of a lakehouse while runs go on, and restore them."""

from keyfold.maintenance.backup.backups import Backup, Restored, back_up, list_backups, restore

__all__ = ["Backup", "Restored", "back_up", "list_backups", "restore"]
