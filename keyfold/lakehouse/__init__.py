"""The lakehouse: the paths of all data, and Delta tables."""

from keyfold.lakehouse.paths import Lakehouse, create_table, is_table

__all__ = ["Lakehouse", "create_table", "is_table"]
