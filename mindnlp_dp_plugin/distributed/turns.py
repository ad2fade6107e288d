"""Which rows of a pass over prepared evaluation rows a rank is to gather: those of its turn, or of all its turns."""

from mindnlp_dp_plugin.errors import DataParallelError


class Turns:
    """The batches of the pass that is under way, or of the last one."""

    def __init__(self):
        self._sizes: list[int] = []
        self._is_repeated = self._is_under_way = False

    def begin(self) -> None:
        """A pass begins."""
        self._sizes, self._is_repeated, self._is_under_way = [], False, True

    def take(self, batch: dict, is_repeated: bool = False) -> None:
        """A batch is read; one that is repeated counts nothing, and is the last."""
        self._sizes.append(len(next(iter(batch.values()))))
        self._is_repeated = is_repeated

    def end(self) -> None:
        """The pass is over: what is gathered now is gathered of all its batches."""
        self._is_under_way = False

    def forget(self) -> None:
        """What is gathered from now on belongs to no pass."""
        self._sizes, self._is_under_way = [], False

    def rows(self, num_rows: int) -> list[tuple[int, int]] | None:
        """The place of each row that is gathered: its turn, and its place in the batch; None outside of any pass.

        Rows of a repeated batch have none, and are left out at the end.

        Raises:
            DataParallelError: If these are not as many rows as the batch has, or all batches of the pass together.
        """
        if not self._sizes:
            return None
        turns = [len(self._sizes) - 1] if self._is_under_way else range(len(self._sizes))
        if num_rows != (expected := sum(self._sizes[turn] for turn in turns)):
            raise DataParallelError(
                "gather_for_metrics got {num_rows} rows, but {expected} were read: give it all rows of the batch "
                "within the loop, or all rows of the pass after it; or give the numbers of the rows.",
                num_rows=num_rows,
                expected=expected,
            )
        last = len(self._sizes) - 1
        return [
            (turn, place)
            for turn in turns
            for place in range(self._sizes[turn])
            if not (self._is_repeated and turn == last)
        ]


turns = Turns()
