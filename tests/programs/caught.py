"""A script catches what ends its training, and goes on: ``python caught.py OUTPUT STAGE...``.

A callback raises after the second step on all ranks. Then the script evaluates, predicts, saves and trains again, and
leaves ``OUTPUT/stage<s>.rank<r>.json`` for each stage of ZeRO. On ranks, it ends with one that raises on rank 1 alone.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
from pathlib import Path

from mindnlp.engine import TrainerCallback

from tests.programs.noted import digest_of
from tests.programs.tiny import tiny_dataset, tiny_trainer, without_dropout

OUTPUT = Path(sys.argv[1])


class Raises(TrainerCallback):
    def __init__(self, ranks):
        self.ranks = ranks

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 2 and dp.get_rank() in self.ranks:
            raise MemoryError("out of memory")


def catch(stage, ranks=(0, 1)):
    if dp.get_world_size() > 1:
        dp.install(dp.DataParallelConfig(zero_stage=stage))
    raises, model = Raises(ranks), without_dropout()
    batch_size = 8 if dp.get_world_size() > 1 else 16
    rows = tiny_dataset(32, batch_size)
    trainer = tiny_trainer(OUTPUT / f"training{stage}", model, rows, callbacks=[raises], optim="sgd")
    trainer.eval_dataset = tiny_dataset(20, 4)
    left = {}
    try:
        trainer.train()
    except MemoryError as error:
        left["caught"] = str(error)
    left["loss"] = trainer.evaluate()["eval_loss"]
    left["predictions"] = trainer.predict(tiny_dataset(20, 4)).predictions.tolist()
    trainer.save_model(str(OUTPUT / f"saved{stage}"))
    trainer.remove_callback(raises)
    left["trained"] = trainer.train().training_loss
    with dp.gathered_parameters(trainer.model):
        left["model"] = digest_of(trainer.model)
    (OUTPUT / f"stage{stage}.rank{dp.get_rank()}.json").write_text(json.dumps(left))


for number in sys.argv[2:]:
    catch(int(number))
if dp.get_world_size() > 1:
    catch(0, ranks=(1,))
