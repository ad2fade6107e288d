"""Functions that workers of Ray call, and ``mindnlp-dp run`` as well: ``python -m tests.ray.functions OUTPUT``."""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path


def train(config):
    """Shuffled rows, checkpoints in the middle of epochs. ``config["strike"]``: what happens once, to which rank, when.

    ``OUTPUT/begun.<n>.json`` tells at which step each attempt began, ``OUTPUT/model`` is what training ended with.
    """
    import mindnlp_dp_plugin as dp  # isort: skip

    from mindnlp.engine import Trainer, TrainerCallback

    from tests.programs.resume_scenarios import shuffled
    from tests.programs.tiny import tiny_dataset, tiny_trainer

    output = Path(config["output"])

    class Begun(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if not self.has_begun and dp.is_main_process():
                number = len(list(output.glob("begun.*")))
                (output / f"begun.{number}.json").write_text(json.dumps(state.global_step))
            self.has_begun = True

        has_begun = False

    class Struck(Trainer):
        def compute_loss(self, *args, **kwargs):
            time.sleep(config.get("pace", 0))
            if config.get("strike"):
                strike(config, self.state.global_step)
            return super().compute_loss(*args, **kwargs)

    callbacks = [Begun()]
    if config.get("reports", "RAY_JOB_ID" in os.environ):
        from mindnlp_dp_plugin.ray import RayReportCallback

        callbacks.append(RayReportCallback())
    trainer = tiny_trainer(
        config.get("home") or output / "trainer", dataset=shuffled(9), trainer_type=Struck, callbacks=callbacks,
        max_steps=10, logging_steps=2, save_strategy="steps", save_steps=3, evaluation_strategy="steps", eval_steps=5,
        learning_rate=config.get("learning_rate", 1e-3),
    )  # fmt: skip
    trainer.eval_dataset = tiny_dataset(num_rows=24)
    trainer.train()
    trainer.save_model(str(output / "model"))
    dp.barrier()


def own_loop(config):
    """A loop over ``dp.prepare``: 10 steps of 4 in an epoch; a state every third one, which Ray keeps."""
    import mindnlp_dp_plugin as dp  # isort: skip

    import ray.train
    from mindnlp.core import value_and_grad
    from mindnlp.core.optim import AdamW
    from ray.train import Checkpoint

    from tests.programs.tiny import tiny_model, tiny_rows

    output, model = Path(config["output"]), tiny_model()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    model, optimizer, rows = dp.prepare(model, optimizer, tiny_rows(64, shuffle=True).batch(8))
    gradients_of = value_and_grad(lambda batch: model(**batch).loss, tuple(model.parameters()))
    step = 0
    if kept := ray.train.get_checkpoint():
        with kept.as_directory() as folder:
            step = dp.load_state(folder).num_steps
    if dp.is_main_process():
        (output / f"begun.{len(list(output.glob('begun.*')))}.json").write_text(json.dumps(step))
    model.set_train()
    while step < 10:
        for batch in rows.create_dict_iterator():
            if config.get("strike"):
                strike(config, step)
            loss = gradients_of(batch)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % 3 == 0:
                dp.save_state(output / "state")
                checkpoint = Checkpoint.from_directory(output / "state") if dp.is_main_process() else None
                ray.train.report({"step": step, "loss": float(loss)}, checkpoint=checkpoint)
            if step == 10:
                break
    if dp.is_main_process():
        (output / "model").mkdir()
        tensors = [parameter.asnumpy().tobytes() for parameter in model.parameters()]
        (output / "model" / "model.safetensors").write_bytes(b"".join(tensors))
    dp.barrier()


def strike(config, step):
    """Let what is ordered happen here, if it has not yet."""
    import mindnlp_dp_plugin as dp

    rank, at, what = config["strike"]
    mark = Path(config["output"], "struck")
    if (dp.get_rank(), step) != (rank, at) or mark.exists():
        return
    mark.write_text(json.dumps({"pid": os.getpid(), "at": time.time()}))
    if what == "wait":  # for what others do to this node
        return
    if what == "part":  # the others average gradients
        dp.all_gather_object("nobody else does")
    if what == "leave no trace":
        shutil.rmtree(config["home"])
        what = "SIGKILL"
    if what == "raise":
        raise ValueError("a row that cannot be")
    os.kill(os.getpid(), signal.Signals[what])


if __name__ == "__main__":
    train({"output": sys.argv[1]})
