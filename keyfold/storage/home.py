"""Check the path of a lakehouse directory: Delta's library and Spark must open the same one."""

import re
from urllib.parse import quote

from keyfold.errors import Misconfigured
from keyfold.storage.place import Place, local_path, to_place


def home_of(text: Place | str) -> Place:
    """Check a lakehouse directory, and make its path absolute.

    Raises:
        Misconfigured: the URL has another scheme, or the path has characters that Delta's library or Spark misread.
    """
    place = to_place(text)
    if (path := local_path(place)) is not None:
        if re.search(r"%[0-9A-Fa-f]{2}|\\", str(path)):
            raise Misconfigured(
                f"the lakehouse directory {text} must not contain \\ or % before two hexadecimal digits, since Delta's library "
                "decodes it as part of a URL and opens another folder; choose another name"
            )
        # Absolute, since Spark's workers and Dagster's processes may run in other working directories.
        return path.expanduser().resolve()
    # Delta's library decodes some characters as parts of a URL, and Spark's state reader escapes others.
    key = "/".join(place.parts)
    if quote(key, safe="/+=") != key:
        raise Misconfigured(
            f"the lakehouse directory {text}: in a bucket its path must be of letters, digits and . _ - ~ + = only, since "
            "Delta's library and Spark misread other characters; choose another name"
        )
    return place
