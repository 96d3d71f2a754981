"""Tools for state: read, export, compare, make, move, edit and erase it."""
