"""The command line: flags of the commands, plugins, and exit codes."""
