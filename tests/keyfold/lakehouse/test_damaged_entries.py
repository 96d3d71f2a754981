"""A log entry that was not read yet, and is damaged, is an error that names it, for each reader of changes."""

import polars as pl
import pytest

from keyfold.errors import Damaged
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.log_changes import added_since, changes_since, next_change
from keyfold.lakehouse.positions import position_at
from keyfold.storage.disk_path import DiskPath
from tests.damages import WRONG_JSON, cut_short, empty, put_wrong_json, zero_some
from tests.schemas import schema_of

SCHEMA = schema_of("id string, at time")


@pytest.mark.parametrize("damage", [empty, cut_short, zero_some, *map(put_wrong_json, WRONG_JSON)])
@pytest.mark.parametrize("read", [lambda table, since: changes_since(table, since, "at"), added_since, next_change])
def test_an_unread_entry_that_is_damaged_is_named(tmp_path: DiskPath, damage, read):
    create_table(tmp_path / "table", SCHEMA)
    for batch in range(3):
        rows = pl.DataFrame({"id": [f"{batch}"], "at": [None]}, {"id": pl.String, "at": pl.Datetime("us", "UTC")})
        append_files(tmp_path / "table", [write_data_file(rows, tmp_path / "table", SCHEMA)], "test", batch)
    position = position_at(tmp_path / "table", 0)
    damage(tmp_path / "table" / "_delta_log" / f"{1:020d}.json")
    with pytest.raises(Damaged, match=r"the log of .*table is damaged: entry 1 "):
        read(tmp_path / "table", position)
