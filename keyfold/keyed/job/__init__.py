"""What the author of a job declares: contract, inputs, parameters, state, tables and timeouts. Its public names are in `keyfold`."""
