"""``python -m mindnlp_dp_plugin.cli``, the same as ``mindnlp-dp``."""

from mindnlp_dp_plugin.cli import main

main()
