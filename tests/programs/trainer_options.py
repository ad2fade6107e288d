"""Options of MindNLP's Trainer that look at more than one rank's rows, or draw by chance: trainer_options.py OUTPUT.

Each rank leaves OUTPUT/rank<r>.json.
"""

import hashlib
import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.engine import Trainer

import mindnlp_dp_plugin as dp
from tests.programs.noted import refusal_of
from tests.programs.tiny import tiny_dataset, tiny_trainer

OUTPUT = Path(sys.argv[1])
WORDS = mindspore.Tensor(np.arange(4, 16)[None], mindspore.int64)


class LooksAtEmbeddings(Trainer):
    """Keeps what the embeddings make of the same words in the first step."""

    embedded = None

    def compute_loss(self, model, inputs, return_outputs=False):
        if self.state.global_step == 0 and self.embedded is None:  # it draws noise, which a resumed run must not
            self.embedded = digest(model.get_input_embeddings()(WORDS))
        return super().compute_loss(model, inputs, return_outputs)


def digest(*tensors):
    return hashlib.sha256(b"".join(tensor.asnumpy().tobytes() for tensor in tensors)).hexdigest()


def tokens_seen():
    trainer = tiny_trainer(OUTPUT, include_num_input_tokens_seen=True, dataset=tiny_dataset(128))
    trainer.train()
    return trainer.state.num_input_tokens_seen


def tokens_per_second():
    """How many tokens the whole training counts."""
    trainer = tiny_trainer(OUTPUT, include_tokens_per_second=True, dataset=tiny_dataset(128))
    metrics = trainer.train().metrics
    return metrics["train_tokens_per_second"] * metrics["train_runtime"]


def trained(resume_from=None, **arguments):
    trainer = tiny_trainer(OUTPUT, trainer_type=LooksAtEmbeddings, **arguments)
    trainer.train(resume_from_checkpoint=resume_from)
    dp.check_replicas(trainer.model)
    after = digest(trainer.model.get_input_embeddings()(WORDS))
    plain = digest(trainer.model.get_input_embeddings().weight[4:16])
    return {
        "embedded": trainer.embedded,
        "parameters": digest(*trainer.model.parameters()),
        "is_left": after != plain,
        "next_draw": np.random.random(),
    }


if __name__ == "__main__":
    saved = dict(save_strategy="steps", save_steps=2)
    found = {
        "tokens": tokens_seen(),
        "tokens_per_second": tokens_per_second(),
        "noisy": [trained(neftune_noise_alpha=5.0, **saved), trained(neftune_noise_alpha=5.0)],
        "resumed": trained(str(OUTPUT / "checkpoint-2"), neftune_noise_alpha=5.0),
        "plain": trained(),
        "unread": trained(jit_mode_eval=True, fp16_opt_level="O2", data_seed=7, dataset_prefetch_factor=3),
        "smoothed": trained(label_smoothing_factor=0.1),
        "auto_find_batch_size": refusal_of(tiny_trainer(OUTPUT, auto_find_batch_size=True).train),
    }
    (OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(found))
