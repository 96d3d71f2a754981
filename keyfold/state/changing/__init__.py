"""Change the state of jobs: edit it, move it, try and promote a branch, prune old generations."""
