"""Show foreign text in descriptions: Dagster's pages render these as Markdown."""

import re

_LONGEST = 100


def plain(text: str, longest: int = _LONGEST) -> str:
    """Replace signs of markup in a text, and cut it.

    Round brackets stay: they are markup only behind square ones.
    """
    return re.sub(r"[^\w .,;:'\"%=+()-]", "�", text)[:longest]
