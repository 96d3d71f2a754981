"""The lakehouse: the paths of all data, and atomic writes of files, locks and Delta tables."""

from keyfold.lakehouse.files import exclusive, read_json, write_json
from keyfold.lakehouse.paths import Lakehouse, create_table, is_table

__all__ = ["Lakehouse", "create_table", "exclusive", "is_table", "read_json", "write_json"]
