"""The recipes."""
