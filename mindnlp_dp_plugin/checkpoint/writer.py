"""Write a checkpoint whole or not at all, at once or while training goes on; the same for each door.

One rank writes. What the others write beside it is dropped, and never gets into the folder that that one works in.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.background import BackgroundSave
from mindnlp_dp_plugin.job.rank_process import temporary_folder

Deferring = Callable[[], AbstractContextManager[Iterator[Callable[[], None]]]]


class Writer:
    """Writes the checkpoints of a training, one at a time. All ranks must make the same calls.

    Args:
        deferring: Opens a context in which large files are not written, and which tells what writes them: they are
            written while training goes on. None to wait for them.
    """

    def __init__(self, deferring: Deferring | None = None):
        self._deferring = deferring
        self._background = BackgroundSave()

    def write(
        self,
        target: Path,
        writes: bool,
        save: Callable[[Path], None],
        record: dict[str, Any],
        when_whole: Callable[[], None] = lambda: None,
    ) -> None:
        """Write one.

        Args:
            target: Its folder.
            writes: Whether this rank does.
            save: Writes the files to the folder that it is given, which is called as ``target`` and is not there yet.
                On all ranks, as they may have to exchange what one of them writes.
            record: What ``store.read_published`` is to return.
            when_whole: Is called on ranks that write, when the checkpoint has its name.
        """
        self.wait()
        is_deferred = writes and self._deferring is not None
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(store.atomic_save(target.parent) if writes else temporary_folder()))
            written = scratch / target.name
            with self._deferring() if is_deferred else nullcontext() as large_files:
                save(written)

            def publish():
                store.publish(written, target.parent, record)
                when_whole()

            if is_deferred:
                self._background.start(target.name, large_files, publish, stack.pop_all())
            elif writes:
                publish()

    def wait(self) -> None:
        """Wait until the checkpoint that is being written is whole.

        Raises:
            DataParallelError: If it could not be written.
        """
        self._background.wait()

    def abandon(self) -> None:
        """Stop writing: training has failed, and the checkpoint before is whole."""
        self._background.abandon()
