"""`python -m benchmarks.scale.paper`: a cluster sized by the model, on paper: nothing of this size was run.

Prices come from cells of two cores; what a cluster adds (network, an object store, stragglers) is assumed, and each
assumption is a number here that can be given.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.scale.model import CHECKPOINT, FILES, MEASURED, PROCESSOR, Model, Settings, fit, read_cells
from benchmarks.scale.skew import fullest_partition
from keyfold.keyed.read import SPLITS


@dataclass(frozen=True)
class Cluster:
    """What is sized.

    Attributes:
        keys: open keys.
        bytes_a_key: of state, as it lies in a blob.
        rows_a_key: rows of state.
        events_a_second: that come.
        seconds_a_batch: from one batch's begin to the next one's.
        key_groups: of the job.
        partitions: of the state.
        executors, cores: how many, and the cores of each.
        store_bytes_a_second: what an executor writes to the object store.
        retained: batches whose state is kept.
        seconds_a_blob: of a processor, for each blob of events that a key group gets after its first: 0.05 ms were measured
            in Python (`benchmarks.scale.workers`), the rest is assumed for Java and the network.
    """

    keys: int = 1_000_000_000
    bytes_a_key: float = 28.0
    rows_a_key: int = 1
    events_a_second: float = 1_000_000
    seconds_a_batch: float = 60.0
    key_groups: int = 32_768
    partitions: int = 400
    executors: int = 100
    cores: int = 4
    store_bytes_a_second: float = 200e6
    retained: int = 100
    seconds_a_blob: float = 1e-4

    @property
    def readers(self) -> int:
        """Tasks that read events: a batch's reading is split into so many shares at most."""
        return min(SPLITS, self.executors * self.cores)

    @property
    def cell(self) -> Settings:
        """A batch of it, as the model's terms want it."""
        return {
            "keys": self.keys,
            "key_groups": self.key_groups,
            "events": self.events_a_second * self.seconds_a_batch,
            "groups_touched": 1.0,
            "rows_a_key": self.rows_a_key,
            "partitions": self.partitions,
            "blob_bytes": self.bytes_a_key * self.keys / self.key_groups,
        }


@dataclass(frozen=True)
class Sized:
    """What a batch of a cluster comes to.

    Attributes:
        processor: seconds of all cores.
        work: seconds of the slowest core.
        store: seconds in which an executor writes its share of the state.
        busy: share of the time between two batches that both take.
        checkpoint_bytes, checkpoint_files: a batch.
        requests: of the object store a second.
        kept_bytes: of state of all batches that are kept.
        blob_bytes: a key group's state.
        events_a_blob: that a reading task hands to a key group.
        needs: which term costs most, and its share.
    """

    processor: float
    work: float
    store: float
    busy: float
    checkpoint_bytes: float
    checkpoint_files: float
    requests: float
    kept_bytes: float
    blob_bytes: float
    events_a_blob: float
    needs: tuple[str, float]


@dataclass(frozen=True)
class Prices:
    """The three models of a batch."""

    processor: Model
    checkpoint: Model
    files: Model


def prices(cells: Sequence[Settings]) -> Prices:
    """Fit all three to measured cells."""
    return Prices(
        fit(cells, "processor", PROCESSOR),
        fit(cells, "checkpoint_bytes", CHECKPOINT),
        fit(cells, "checkpoint_files", FILES),
    )


def size(cluster: Cluster, by: Prices) -> Sized:
    """Size a cluster by prices."""
    cell = cluster.cell
    # Of a machine of two cores, where one task or two read: every further reader has a blob for each key group.
    blobs = (cluster.readers - 1) * cluster.key_groups * cluster.seconds_a_blob
    processor, written = by.processor.foretell(cell) + blobs, by.checkpoint.foretell(cell)
    # An object store takes a file in one request; a batch's state is told by a listing and a read of each partition too.
    files = by.files.foretell(cell)
    # The batch waits for its fullest partition.
    slower = fullest_partition(cluster.key_groups, cluster.partitions)
    work = processor / min(cluster.partitions, cluster.executors * cluster.cores) * slower
    store = written / cluster.executors / cluster.store_bytes_a_second * slower
    shares = by.processor.shares(cell) | {"blobs of events": blobs}
    most = max(shares, key=lambda name: shares[name])
    return Sized(
        processor=processor,
        work=work,
        store=store,
        busy=(work + store) / cluster.seconds_a_batch,
        checkpoint_bytes=written,
        checkpoint_files=files,
        requests=(files + 2 * cluster.partitions) / cluster.seconds_a_batch,
        kept_bytes=written * cluster.retained,
        blob_bytes=cell["blob_bytes"],
        events_a_blob=cell["events"] / cluster.key_groups / cluster.readers,
        needs=(most, shares[most] / processor),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.paper", description=__doc__)
    parser.add_argument("cells", type=Path, nargs="*", default=[MEASURED])
    by = prices([cell for cell in read_cells(parser.parse_args().cells) if not cell["executors"]])
    base = Cluster()
    print(
        "| keys | bytes a key | events/s | a batch, s | key groups | partitions | processor s | work, s | store, s | busy | "
        "checkpoint, GB | files | requests/s | kept, TB | most of it |"
    )
    print("|" + "---:|" * 14 + "---|")
    for cluster in (
        replace(base, events_a_second=100_000),
        base,
        replace(base, seconds_a_batch=10),
        replace(base, seconds_a_batch=300),
        replace(base, key_groups=8_000),
        replace(base, partitions=1_600),
        replace(base, partitions=4_096),
        replace(base, bytes_a_key=280, rows_a_key=10),
        replace(base, keys=100_000_000, executors=10, partitions=40, key_groups=3_200, events_a_second=100_000),
    ):
        print(row(cluster, size(cluster, by)))


def row(cluster: Cluster, sized: Sized) -> str:
    """A line of the table of docs/explanation/scale.md."""
    told = (
        f"{cluster.keys / 1e6:,.0f} M",
        f"{cluster.bytes_a_key:.0f}",
        f"{cluster.events_a_second:,.0f}",
        f"{cluster.seconds_a_batch:.0f}",
        f"{cluster.key_groups:,}",
        f"{cluster.partitions:,}",
        f"{sized.processor:,.0f}",
        f"{sized.work:.1f}",
        f"{sized.store:.1f}",
        f"**{sized.busy:.0%}**",
        f"{sized.checkpoint_bytes / 1e9:,.0f}",
        f"{sized.checkpoint_files:,.0f}",
        f"{sized.requests:,.0f}",
        f"{sized.kept_bytes / 1e12:,.1f}",
        f"{sized.needs[0].removesuffix(', s')} ({sized.needs[1]:.0%})",
    )
    return f"| {' | '.join(told)} |"


if __name__ == "__main__":
    main()
