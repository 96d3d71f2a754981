"""A home may have any name under which all who work on it find the same folder; others are refused in words."""

import pyarrow as pa
import pytest

from keyfold.errors import KeyfoldError
from keyfold.lakehouse import Lakehouse, create_table, is_table


@pytest.mark.parametrize("name", ["a%20b", "50%", "a#b", "a?b", "a b", "ä", "a[b]", "a/b c/d"])
def test_a_home_in_a_bucket_that_others_would_look_for_elsewhere_is_refused(name):
    with pytest.raises(KeyfoldError, match="in a bucket its path must be of letters, digits and"):
        Lakehouse(f"s3a://lake/{name}")


@pytest.mark.parametrize("name", ["ab", "A-b_c.d", "a=1/b+2", "a~b"])
def test_any_other_name_is_one_folder_to_delta_s_library_and_to_this_code(bucket, name):
    home = Lakehouse(f"s3a://{bucket}/{name}/home")
    create_table(home.events("clicks"), pa.schema([("user", pa.string())]))
    assert is_table(home.events("clicks"))
    assert (home.events("clicks") / "_delta_log" / f"{0:020d}.json").exists()
    assert list(home.tables()) == ["events.clicks"]


@pytest.mark.parametrize("name", ["50%", "a%b", "%zz", "a#b", "a?b", "a b", "ä+b&c", "s3a:"])
def test_on_a_disk_nearly_any_name_will_do(tmp_path, name):
    home = Lakehouse(tmp_path / name)
    create_table(home.events("clicks"), pa.schema([("user", pa.string())]))
    assert (tmp_path / name / "events" / "clicks" / "_delta_log" / f"{0:020d}.json").exists()
    assert list(home.tables()) == ["events.clicks"]


@pytest.mark.parametrize("name", ["a%20b", "%2F/home", "50%aF", "back\\slash"])
def test_but_those_that_read_like_a_part_of_a_url(tmp_path, name):
    with pytest.raises(KeyfoldError, match="or % before two hexadecimal digits"):
        Lakehouse(tmp_path / name)
