"""The examples in docs/tutorial/patterns.md run as they stand, one after the other, and print what the page says. Without Spark."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "patterns.md"


def test_the_examples_print_what_the_page_says(capsys):
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    module, printed = {}, []
    for kind, content in blocks:
        if kind == "python":
            exec(content, module)  # noqa: S102 - our own page
        else:
            printed.append(content)
            assert capsys.readouterr().out == content
    assert len(printed) == 2
    assert capsys.readouterr().out == ""
