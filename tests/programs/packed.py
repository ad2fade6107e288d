"""Train on packed chats: ``python packed.py OUTPUT NUM_RANKS``. Alone, with the batches of so many ranks at once.

Leaves ``OUTPUT/<name>.npz``, the parameters, and ``.json``: losses, and a digest after each step, equal on all ranks.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import hashlib
import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments
from mindnlp.transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from mindnlp_dp_plugin import collectives
from tests.programs.tiny import SIZES, seed_everything

OUTPUT, NUM_RANKS = Path(sys.argv[1]), int(sys.argv[2])
ALONE = dp.get_world_size() == 1
BATCH_SIZE = 2 * NUM_RANKS if ALONE else 2
DROPOUT = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


class Digests(TrainerCallback):
    """Of the parameters, after each step."""

    def __init__(self):
        self.found = []

    def on_step_end(self, args, state, control, model=None, **kwargs):
        digest = hashlib.sha256()
        for parameter in model.parameters():
            digest.update(np.ascontiguousarray(parameter.asnumpy()))
        self.found.append(digest.hexdigest())


def llama():
    return LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=1, max_position_embeddings=64))


def gpt2():
    return GPT2LMHeadModel(GPT2Config(SIZES["vocab_size"], 64, 32, 2, 2, **DROPOUT))


def packed_chats(num_rows):
    """So many rows, of which each holds two chats; how many of their tokens are answers differs."""
    chance, chats = np.random.default_rng(7), []
    for length in (9, 14) * num_rows:
        tokens = chance.integers(4, SIZES["vocab_size"], length).tolist()
        first = chance.integers(1, length)
        chats.append({"input_ids": tokens, "labels": [-100] * first + tokens[first:]})
    return dp.pack_dataset(chats, seq_length=24, batch_size=BATCH_SIZE, shuffle=True)


def train(name, build=llama, resume=None, **arguments):
    if dp.get_world_size() == 1:  # stock's Trainer shuffles otherwise; this is the same mean
        dp.install(dp.DataParallelConfig(average_over="tokens"))
    seed_everything(3)
    model, digests = build(), Digests()
    settings = dict(
        output_dir=str(OUTPUT / name), num_train_epochs=2, logging_steps=1, learning_rate=1e-3, adam_epsilon=1e-4,
        save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(
        model, TrainingArguments(**{**settings, **arguments}), train_dataset=packed_chats(6 * NUM_RANKS * 2),
        callbacks=[digests],
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=resume)
    of_ranks = collectives.current().all_gather_object(digests.found)
    assert all(theirs == of_ranks[0] for theirs in of_ranks), "ranks differ"
    if dp.is_main_process():
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        (OUTPUT / f"{name}.json").write_text(json.dumps({"losses": losses, "digests": digests.found}))
        np.savez(OUTPUT / f"{name}.npz", *[parameter.asnumpy() for parameter in model.parameters()])
    dp.barrier()


if __name__ == "__main__":
    train("llama", save_strategy="steps", save_steps=4)
    train("gpt2", gpt2)
    mindspore.set_seed(100)  # nothing of what is in memory may matter
    train("resumed", resume=str(OUTPUT / "llama/checkpoint-4"))
    try:
        train("grouped", group_by_length=True)
    except dp.DataParallelError as error:
        (OUTPUT / "grouped.txt").write_text(str(error))
