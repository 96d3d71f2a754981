"""Name and describe Keyfold's assets: keys, groups, owners, tags, metadata."""

from collections.abc import Sequence

import dagster as dg

from keyfold.dagster.table_inputs import readable
from keyfold.errors import Misconfigured

JOB_TAG, STREAM_TAG = "keyfold/job", "keyfold/stream"
"""Tags of assets: the job, or the stream, that writes the asset's table."""


class KeyfoldTranslator:
    """Makes the specs of Keyfold's assets; extend it to change what `get_asset_spec` and `get_asset_key` return.

    Args:
        group: the asset group; by default Dagster's.
        owners: people or teams, in Dagster's notation.
        prefix: first parts of every asset key.

    Example:
        >>> class Tagged(KeyfoldTranslator):
        ...     def get_asset_spec(self, spec):
        ...         return super().get_asset_spec(spec).merge_attributes(tags={"domain": "taxi"})
        >>> Tagged(prefix=["raw"]).get_asset_key("late.rides").to_user_string()
        'raw/rides_late'
    """

    def __init__(self, *, group: str | None = None, owners: Sequence[str] = (), prefix: Sequence[str] = ()) -> None:
        self.group = group
        self.owners = tuple(owners)
        self.prefix = tuple(prefix)

    def get_asset_key(self, table: str) -> dg.AssetKey:
        """Return the asset key of a table: `rides_late` for `late.rides`; `landing.rides` is the folder or topic of a stream.

        It depends on the name alone, since a job may read a table that is declared elsewhere. Not `late/rides`: Dagster's graph
        shows only the last part of a key.
        """
        return dg.AssetKey([*self.prefix, "_".join(reversed(table.split(".")))])

    def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the spec of an asset, given one with key, dependencies, description, tags and metadata.

        The tag `keyfold/job` or `keyfold/stream` tells who writes it, the metadata `dagster/table_name` its table.
        """
        owners = list(spec.owners) or list(self.owners)
        return spec.replace_attributes(group_name=self.group, owners=owners)


DEFAULT = KeyfoldTranslator()


def described(translator: KeyfoldTranslator, spec: dg.AssetSpec) -> dg.AssetSpec:
    """Return the translator's spec of an asset.

    Raises:
        KeyfoldError: `get_asset_spec` has changed the key.
    """
    described_spec = translator.get_asset_spec(spec)
    if described_spec.key != spec.key:
        raise Misconfigured(
            f"{type(translator).__name__}.get_asset_spec makes {described_spec.key.to_user_string()} of {spec.key.to_user_string()}: "
            "change keys in get_asset_key, which jobs and checks that name the table call too"
        )
    return readable(described_spec)
