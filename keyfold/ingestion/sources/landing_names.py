"""Landing folders by name, as the journal keeps them."""

from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import Place, path_below, to_place


def source_name(lakehouse: Lakehouse, landing: Place) -> str:
    """What names a landing folder: its path below the home, which may move; the whole one elsewhere."""
    inside = path_below(landing, lakehouse.home)
    return landing.as_posix() if inside is None else inside.as_posix()


def source_place(lakehouse: Lakehouse, source: str) -> Place:
    """The landing folder that a `source_name` names."""
    return to_place(source) if source.startswith(("/", "s3a://")) else lakehouse.home / source
