"""The one error the plugin raises for bad input and for ranks that disagree."""

from typing import Any

from mindnlp_dp_plugin.language import tr


class DataParallelError(RuntimeError):
    """Something the user can fix: the message names the thing, its value and a hint.

    Args:
        template: The message in English, a key of the catalogue; see ``language.tr``.
        fields: What is filled in.

    Examples:
        >>> try:
        ...     trainer.train()
        ... except dp.DataParallelError as error:
        ...     dp.print_rank_0(f"not trained: {error}")
    """

    def __init__(self, template: str = "", /, **fields: Any):
        super().__init__(tr(template, **fields))  # one argument: the error can be pickled


class Preempted(SystemExit):
    """Training has stopped early, with a checkpoint, because a signal asked for it; the status is 128 + its number.

    Args:
        signum: The signal.
        words: What was done, for the user.
    """

    def __init__(self, signum: int, words: str):
        super().__init__(128 + signum)
        self._signum, self._words = signum, words

    def __reduce__(self):
        return type(self), (self._signum, self._words)

    def __str__(self):
        return self._words
