#!/usr/bin/env python
"""Regenerate docs/reference/commands.md and the table of metrics in the pages from the code: `make docs`.

The commands are those of `keyfold --help`, with their arguments and options. A test fails if a page differs from them.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from keyfold.cli.app import commands, load
from keyfold.runs.metrics import MEANING

PAGES = Path(__file__).parents[1] / "docs"

# Options that the page describes once.
_EVERYWHERE = frozenset({"help", "home", "module", "as_json", "yes", "why", "who", "runner", "metrics"})
_BLOCK = re.compile(r"(<!-- (commands|metrics) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def fill(page: str) -> str:
    """Replace all generated blocks in a page's text."""
    made = {"commands": _commands, "metrics": _metrics}
    return _BLOCK.sub(lambda block: f"{block[1]}\n{made[block[2]]()}\n{block[3]}", page)


def _commands() -> str:
    return "\n".join("\n".join(_section(name, command)) for name, command in _named())


def _named() -> Iterator[tuple[str, Any]]:
    """All commands with their full names, also those of groups."""
    for name in commands():
        command = load(name)
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
        else:
            for one, below in inner.items():
                yield f"{name} {one}", below


def _section(name: str, command: Any) -> list[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name not in _EVERYWHERE]
    usage = " ".join(["keyfold", name, *(_argument(one) for one in arguments), *(["[OPTIONS]"] if options else [])])
    lines = [f"## keyfold {name}", "", f"`{usage}`", "", inspect.cleandoc(command.help or ""), ""]
    # A job or a stream by its name needs no line: the usage has it.
    named = [one for one in arguments if not re.match(r"(One of: |The job\.|The stream\.)", one.help or "")]
    if rows := [_row(one) for one in (*named, *options)]:
        lines += ["| argument or option | meaning |", "|---|---|", *rows, ""]
    return lines


def _argument(one: Any) -> str:
    name = (one.metavar or one.name).strip("[]").upper() + ("…" if one.nargs == -1 else "")
    return name if one.required else f"[{name}]"


def _row(one: Any) -> str:
    if one.param_type_name == "argument":
        name = f"`{_argument(one).strip('[]')}`"
    else:
        metavar = "" if one.is_flag else f" {one.metavar or _kind(one)}"
        name = ", ".join(f"`{option}{metavar}`" for option in (*one.opts, *one.secondary_opts))
    text = re.sub(r"\s+", " ", one.help or "").strip()
    return f"| {_cell(name)} | {_cell(text)}{_default(one)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _kind(one: Any) -> str:
    kind = one.type_descriptor.annotation
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return {int: "N", float: "N", Path: "PATH"}.get(kind) or str(one.name).upper()


def _default(one: Any) -> str:
    plain = isinstance(one.default, str | int | float) and not isinstance(one.default, bool)
    shown = "[default:" not in (one.help or "") and plain and one.default not in ("", ())
    return f" [default: {one.default}]" if shown and not one.required else ""


def _metrics() -> str:
    rows = [
        f"| `{name}` | {'counter' if name.endswith('_total') else 'gauge'} | {text} |" for name, text in MEANING.items()
    ]
    return "\n".join(["| metric | kind | meaning |", "|---|---|---|", *rows]) + "\n"


def main() -> None:
    """Rewrite outdated pages, and print their names."""
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text)) != text:
            page.write_text(filled, encoding="utf-8")
            print(f"written: {page.relative_to(PAGES.parent)}")


if __name__ == "__main__":
    main()
