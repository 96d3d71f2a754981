"""Commands of `keyfold` on toys, as `local_keyfold` runs them, each process with a Spark of its own."""

from tests.chaos.local_keyfold import play_with_toys, serve

if __name__ == "__main__":
    play_with_toys()
    serve()
