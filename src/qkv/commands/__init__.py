"""One file per verb of the command line: EXAMPLES, `arguments(parser)` and `run(options)`."""
