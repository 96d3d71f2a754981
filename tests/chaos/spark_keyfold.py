"""Commands of `keyfold` on toys, as `local_keyfold` runs them, each process with a Spark of its own."""

from tests.chaos.local_keyfold import play_with_toys, serve


def main() -> None:
    """Fork as ordered, for commands that go with Spark."""
    play_with_toys()
    serve()
