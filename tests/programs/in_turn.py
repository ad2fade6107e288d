"""Run programs one after the other, in one start: ``python in_turn.py OUTPUT "PROGRAM [ARGUMENT...]"...``.

Each leaves in ``OUTPUT/PROGRAM`` what it leaves.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import runpy
import sys
from pathlib import Path

OUTPUT, *TURNS = sys.argv[1:]

for turn in TURNS:
    program, *arguments = turn.split()
    folder = Path(OUTPUT, program)
    folder.mkdir(exist_ok=True)
    sys.argv = [program, str(folder), *arguments]
    runpy.run_path(str(Path(__file__).with_name(program)), run_name="__main__")
    dp.install()  # whatever the program has set
    dp.barrier()
