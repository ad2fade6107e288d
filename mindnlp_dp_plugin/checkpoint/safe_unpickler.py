"""Reads the optimizer and the scheduler of a checkpoint, and runs no code from them.

MindNLP keeps them as pickles, in a zip archive. A pickle may name any function to be called while it is read, and
MindNLP's own ``load`` even evaluates names. Here those few are called that make numbers, arrays and tensors.
"""

import pickle
import zipfile
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError

PLAIN = {
    ("_codecs", "encode"),
    ("collections", "OrderedDict"),
    ("mindspore.common.tensor", "Tensor"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
}


class PlainUnpickler(pickle.Unpickler):
    """Makes what is plain, and refuses the rest."""

    def find_class(self, module_name: str, name: str) -> Any:
        """What a pickle names."""
        if (module_name, name) not in PLAIN:
            raise DataParallelError(
                f"The checkpoint's optimizer or scheduler asks for {module_name}.{name} to be called while it is read, "
                "which MindNLP's own never do. It is not read: it could run any code. Take another checkpoint."
            )
        return super().find_class(module_name, name)


def load(path: str) -> Any:
    """Stands in for MindNLP's function of this name where the Trainer calls it.

    Args:
        path: What MindNLP's ``save`` has written.

    Raises:
        DataParallelError: If it asks for anything but numbers, arrays and tensors.
    """
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        with archive.open(name) as pickled:
            return PlainUnpickler(pickled).load()
