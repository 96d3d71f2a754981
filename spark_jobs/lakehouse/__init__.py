"""The lakehouse: where everything lies, and how files, locks and Delta tables are written so that nothing is half done."""

from spark_jobs.lakehouse.files import read_json, write_json
from spark_jobs.lakehouse.locks import exclusive
from spark_jobs.lakehouse.paths import Lakehouse
from spark_jobs.lakehouse.tables import create_table, is_table

__all__ = ["Lakehouse", "create_table", "exclusive", "is_table", "read_json", "write_json"]
