"""Stop in the middle of an epoch and go on with the next row.

    mindnlp-dp run --nproc 2 resume.py

A run that was stopped and resumed ends with the same parameters, to the last bit, as one that never stopped.
"""

import mindnlp_dp_plugin as dp  # isort: skip  (first: makes MindNLP importable and joins the other ranks)

from common import batches, small_model
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments


class StopAfterStep5(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step == 5


train_dataset = batches("train")


def trainer(callbacks=None):
    arguments = TrainingArguments(
        output_dir="resume_output",
        max_steps=8,
        save_strategy="steps",
        save_steps=2,
        save_total_limit=2,
        learning_rate=1e-3,
        disable_tqdm=True,
    )
    return Trainer(model=small_model(), args=arguments, train_dataset=train_dataset, callbacks=callbacks)


trainer([StopAfterStep5()]).train()  # the newest checkpoint is that of step 4
resumed = trainer()
resumed.train(resume_from_checkpoint=True)  # or the path of a checkpoint
dp.print_rank_0(f"resumed, and ended at step {resumed.state.global_step}")
