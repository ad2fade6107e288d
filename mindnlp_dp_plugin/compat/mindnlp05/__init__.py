"""Every gap in MindNLP 0.5.1's ``mindtorch``, and between it and MindSpore 2.7 to 2.10, by subject."""

from mindnlp_dp_plugin.compat.mindnlp05 import (  # noqa: F401  (each enters its patches into PATCHES)
    data,
    files,
    functions,
    nothing_in_silence,
    operators,
    optimizers,
    random_numbers,
    tensors,
    training,
)
