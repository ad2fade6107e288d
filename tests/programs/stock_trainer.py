"""Train, evaluate and predict in one process, and leave what came out in OUTPUT.

    python stock_trainer.py OUTPUT bridged|plugin

``bridged``: MindNLP with the bridges to this MindSpore and nothing else of the plugin. ``plugin``: the plugin, armed.
"""

import os
import sys
from pathlib import Path

if sys.argv[2] == "bridged":
    os.environ["MINDNLP_DP_DEFERRED"] = "1"  # the package is imported, but not armed
    from mindnlp_dp_plugin import compat

    compat.bridge()
else:
    import mindnlp_dp_plugin  # noqa: F401

import numpy as np
from mindnlp.engine import Trainer

from tests.programs.noted import flat
from tests.programs.tiny import tiny_dataset, tiny_trainer

if __name__ == "__main__":
    hooked = Trainer.training_step.__module__ != "mindnlp.engine.trainer.base"
    assert not hooked, "one process is to run MindNLP's own Trainer"
    output = Path(sys.argv[1])
    trainer = tiny_trainer(output / "trainer", num_train_epochs=2, max_steps=-1, save_strategy="epoch")
    trainer.eval_dataset = tiny_dataset(num_rows=20)
    trainer.args.include_inputs_for_metrics = True
    trainer.compute_metrics = lambda prediction: {"classes": len(set(prediction.predictions.argmax(-1).tolist()))}
    trainer.train()
    metrics = trainer.evaluate()
    predictions = trainer.predict(tiny_dataset(num_rows=20))
    np.savez(
        output / "result.npz",
        parameters=flat(trainer.model),
        eval_loss=metrics["eval_loss"],
        logits=predictions.predictions,
        label_ids=predictions.label_ids,
    )
