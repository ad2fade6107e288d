"""Train with the callback of a service on all ranks, and leave what the Trainer logged: ``services.py OUTPUT NAME``."""

import json
import sys
from pathlib import Path

import mindnlp_dp_plugin as dp  # isort: skip

from tests.programs.tiny import tiny_dataset, tiny_trainer

OUTPUT, NAME = Path(sys.argv[1]), sys.argv[2]
CALLBACKS = {"wandb": dp.WandbCallback, "swanlab": dp.SwanLabCallback}

trainer = tiny_trainer(
    OUTPUT / "trained",
    max_steps=4,
    logging_steps=2,
    callbacks=[CALLBACKS[NAME](OUTPUT / f"of_rank{dp.get_rank()}")],
)
trainer.train()
trainer.evaluate(tiny_dataset(num_rows=24))
if dp.is_main_process():
    (OUTPUT / "history.json").write_text(json.dumps(trainer.state.log_history))
