"""Where Spark reads state through: on a cluster a place that all nodes see."""

from pathlib import Path

import pytest

from keyfold.errors import KeyfoldError
from keyfold.state.reading.state_source import readable_path


@pytest.fixture
def moved(tmp_path):
    """A checkpoint whose own records say that it lies elsewhere."""
    metadata = tmp_path / "generation-0001" / "checkpoint" / "state" / "0" / "_metadata" / "v2" / "0"
    metadata.parent.mkdir(parents=True)
    metadata.write_text('{"stateSchemaFilePaths":["file:/was/here/checkpoint/state/0/_stateSchema/default/0"]}')
    return metadata.parents[4]


def test_workers_of_a_cluster_read_a_moved_checkpoint_through_links_that_lie_beside_it(moved):
    here, shared = readable_path(moved), readable_path(moved, is_shared=True)
    assert not here.is_relative_to(moved.parent)
    assert shared.is_relative_to(moved.parent)
    for view in (here, shared):
        told = (view / "state" / "0" / "_metadata" / "v2" / "0").read_text()
        assert f'"file:{view}/state/0/_stateSchema/default/0"' in told


def test_a_path_that_workers_could_not_read_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(KeyfoldError, match=r"on a cluster the path .* mount it elsewhere"):
        readable_path(Path(tmp_path / "50% more"), is_shared=True)
