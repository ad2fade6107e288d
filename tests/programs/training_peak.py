"""Train a model for a few steps: ``python training_peak.py OUTPUT MODEL STAGE BATCH LENGTH``.

Each rank leaves the peak of its process in ``OUTPUT/rank<r>.json``, in bytes.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
from pathlib import Path

from mindnlp_dp_plugin.doctor.example import train
from mindnlp_dp_plugin.trainers.observe.throughput import peak_memory

OUTPUT, MODEL, (STAGE, BATCH, LENGTH) = Path(sys.argv[1]), sys.argv[2], map(int, sys.argv[3:])

dp.install(dp.DataParallelConfig(zero_stage=STAGE))
train(MODEL, BATCH, LENGTH, fp16=False)
(OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(peak_memory()))
