"""Shows the `Example:` of a docstring as code: mkdocstrings knows `Examples:` as a section, and takes other titles for notes."""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the section before a docstring is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename it in the docstring of a module, a class or a function."""
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
