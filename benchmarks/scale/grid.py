"""The cells to measure. Each question varies one setting."""

from dataclasses import replace

from benchmarks.scale.cell import Cell

BASE = Cell()

GRID = (
    BASE,
    # Key groups by keys.
    replace(BASE, keys=100_000),
    replace(BASE, keys=10_000_000, key_groups=512),
    replace(BASE, keys=10_000, key_groups=512),
    replace(BASE, key_groups=4096),
    # Of some key groups alone.
    replace(BASE, key_groups=512, groups_touched=1 / 16),
    # Events a batch.
    replace(BASE, events=1_000_000),
    replace(BASE, keys=10_000, events=1_000_000),
    # Partitions of state.
    replace(BASE, partitions=32),
    # Rows of state a key.
    replace(BASE, rows_a_key=10, batches=2),
    # Key groups that wait.
    replace(BASE, keys=1_000_000, key_groups=16_384, events=10_000, groups_touched=1 / 64),
    replace(BASE, events=10_000),
    replace(BASE, keys=10_000),
    replace(BASE, keys=10_000_000, key_groups=64, batches=2),
    # Files of events.
    replace(BASE, files=64),
    replace(BASE, keys=10_000_000, key_groups=4096, events=1_000_000, batches=2),
    replace(BASE, keys_touched=0.01),
    replace(BASE, key_groups=8),
    replace(BASE, keys=10_000_000, key_groups=8, batches=2),
)

EXECUTORS = tuple(
    replace(cell, executors=executors, partitions=4, files=8)
    for cell in (
        replace(BASE, events=1_000_000),
        replace(BASE, keys=5_000_000, key_groups=512, events=1_000_000),
    )
    for executors in (1, 2)
)
"""One core against two, with pairs of files and partitions for each."""

LONG = (replace(BASE, batches=60),)
"""Whether batches become slower over time, and what merging of parts adds to some of them."""

QUIET = (
    BASE,
    replace(BASE, keys=10_000),
    replace(BASE, keys=100_000),
    replace(BASE, key_groups=4096),
    replace(BASE, events=1_000_000),
    replace(BASE, keys=10_000, events=1_000_000),
    replace(BASE, partitions=32),
    replace(BASE, key_groups=16_384, events=10_000, groups_touched=1 / 64),
    replace(BASE, keys=10_000_000, key_groups=512),
    replace(BASE, rows_a_key=10, batches=2),
    replace(BASE, keys=10_000_000, key_groups=512, events=1_000),
    replace(BASE, keys=10_000_000, key_groups=32_768, events=1_000),
    *EXECUTORS[:2],
)
"""A small grid for an idle machine, where wall-clock time counts too. Takes about ten minutes."""

SETS: dict[str, tuple[Cell, ...]] = {
    "quick": (replace(BASE, keys=10_000, batches=2),),
    "grid": GRID,
    "executors": EXECUTORS,
    "long": LONG,
    "quiet": QUIET,
}
