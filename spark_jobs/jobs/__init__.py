"""The jobs, a module each; `registry` has them by name."""
