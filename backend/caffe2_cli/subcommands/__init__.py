"""The subcommands of the command line, a module each."""
