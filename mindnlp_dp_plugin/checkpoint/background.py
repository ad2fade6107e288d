"""Write a checkpoint while training goes on.

A forked process has the memory as it was and writes the files; the kernel copies what training changes meanwhile, page
by page, as for Redis's BGSAVE. The process dies with its parent.
"""

import gc
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.signals import end_with_parent, ignore_preemption
from mindnlp_dp_plugin.language import tr


class BackgroundSave:
    """Writes one checkpoint at a time. Belongs to the thread that trains."""

    def __init__(self):
        self._thread = None
        self._child = None
        self._reaping = threading.Lock()  # a number that is free may be another process's next
        self._error: BaseException | None = None

    def start(
        self,
        name: str,
        writes: Iterable[Callable[[], None]],
        publish: Callable[[], None],
        scratch: AbstractContextManager,
    ) -> None:
        """Begin to write a checkpoint; return when its state may change.

        Args:
            name: Its name, for errors.
            writes: Write the files, in another process: they must touch neither MindSpore's runtime nor locks.
            publish: Is called in a thread of this process when they are written.
            scratch: Is left when all is done.
        """
        self._child, answer = _fork(writes)
        self._thread = threading.Thread(target=self._finish, args=(name, answer, publish, scratch))
        self._thread.start()

    def wait(self) -> None:
        """Wait until the checkpoint is whole.

        Raises:
            DataParallelError: If it could not be written.
        """
        if self._thread:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error:
            raise error

    def abandon(self) -> None:
        """End the writing at once: training has failed, and the checkpoint before is whole."""
        if self._thread:
            with self._reaping:
                if self._child:
                    os.kill(self._child, signal.SIGKILL)
            self._thread.join()
            self._thread = self._error = None

    def _finish(self, name, answer, publish, scratch):
        with os.fdopen(answer, "rb") as pipe:
            problem = pipe.read().decode(errors="replace")
        with self._reaping:
            _, status = os.waitpid(self._child, 0)
            self._child = None
        try:
            with scratch:
                if status:
                    how = problem or tr(
                        "its process ended with status {status}", status=os.waitstatus_to_exitcode(status)
                    )
                    raise DataParallelError("{name} could not be written: {how}", name=name, how=how)
                publish()
        except BaseException as error:
            self._error = error


def _fork(writes):
    """A process that makes the calls, and where it answers: nothing, or what went wrong."""
    answer, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads run on: the child calls none of theirs
        child = os.fork()
    if child:
        os.close(tell)
        return child, answer
    status = 1
    try:
        end_with_parent(signal.SIGKILL)
        ignore_preemption()
        gc.disable()
        for write in writes:
            write()
        status = 0
    except BaseException as error:
        os.write(tell, f"{type(error).__name__}: {error}".encode(errors="replace"))
    finally:
        os._exit(status)
