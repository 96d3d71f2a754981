"""Change state: edit, move, promote, try, prune."""
