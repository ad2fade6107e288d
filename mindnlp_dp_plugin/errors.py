"""The one error the plugin raises for bad input and for ranks that disagree."""


class DataParallelError(RuntimeError):
    """Something the user can fix: the message names the thing, its value and a hint."""
