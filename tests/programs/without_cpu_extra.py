"""Run other programs in a process that cannot import numba and threadpoolctl.

    python without_cpu_extra.py OUTPUT PROGRAM[,ARGUMENT]...

Leaves what those programs leave, and ``OUTPUT/said.rank<r>.txt``: what the plugin has logged meanwhile.
"""

import logging
import runpy
import sys
from pathlib import Path

import sklearn.metrics  # noqa: F401  (metrics of the evaluation use it, and it needs threadpoolctl itself)

output, *programs = sys.argv[1:]
sys.modules["numba"] = sys.modules["threadpoolctl"] = None

import mindnlp_dp_plugin as dp  # noqa: E402

log = logging.FileHandler(Path(output, f"said.rank{dp.get_rank()}.txt"))
logging.getLogger("mindnlp_dp_plugin").addHandler(log)
for program in programs:
    name, *arguments = program.split(",")
    sys.argv = [name, output, *arguments]
    runpy.run_module(f"tests.programs.{name}", run_name="__main__")
