"""The command line `keyfold`: what the Dagster assets do, without Dagster."""
