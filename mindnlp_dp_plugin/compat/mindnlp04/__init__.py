"""Every gap between MindNLP 0.4.1 and MindSpore 2.7 to 2.10, and the bridge over it, by subject."""

from mindnlp_dp_plugin.compat.mindnlp04 import (  # noqa: F401  (each enters its patches into PATCHES)
    datasets,
    families,
    imports,
    initial_weights,
    operators,
    parameters,
    quiet,
    training,
)
