"""Generate the files of a new project: the project's own templates, and an example stream and job."""

from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import as_file
from importlib.resources.abc import Traversable
from pathlib import Path

from keyfold.cli.new.job_files import choose_key, job_files
from keyfold.cli.new.proposal import propose_stream
from keyfold.cli.new.sample import read_sample
from keyfold.cli.new.stream_files import stream_files, stream_of, stream_paths
from keyfold.cli.new.writing import TEMPLATES, render

_STREAM = "readings"
_JOB = "hourly_readings"
_FRAME = "project"


def project_files(name: str) -> dict[Path, str]:
    """Generate the text of each file, by its path in the project.

    Args:
        name: the project's name.
    """
    texts = {
        _place(template): render(f"{_FRAME}/{template}", name=name, version=version("keyfold"))
        for template in _templates(TEMPLATES / _FRAME)
    }
    with as_file(TEMPLATES / f"{_STREAM}.ndjson") as file:
        sample = read_sample(file)
        written = stream_files(_STREAM, propose_stream(_STREAM, sample), sample)
    stream = stream_of(written[stream_paths(_STREAM)[0]])
    return texts | written | job_files(_JOB, stream, choose_key(stream, None), _STREAM)


def _templates(folder: Traversable, within: str = "") -> Iterator[str]:
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        if one.is_dir():
            yield from _templates(one, f"{within}{one.name}/")
        elif one.name.endswith(".jinja"):
            yield within + one.name.removesuffix(".jinja")


def _place(template: str) -> Path:
    # The template is named without the dot, since the globs of a wheel skip names with a leading dot.
    return Path(".gitignore" if template == "gitignore" else template)
