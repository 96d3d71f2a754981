"""The Great Expectations bridge: suites to asset checks, one check an expectation. It imports nothing of Keyfold."""
