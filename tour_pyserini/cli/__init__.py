"""Flags of the commands, their settings, and exit codes."""
