"""Train on packed chats: ``python packed.py OUTPUT NUM_RANKS``. Alone, with the batches of so many ranks at once.

Leaves ``OUTPUT/<name>.npz``, the parameters, and ``.json``: losses, and a digest after each step, equal on all ranks.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from mindnlp_dp_plugin import collectives
from tests.programs.noted import refusal_of, weights_of
from tests.programs.tiny import SIZES, Digests, seed_everything, tiny_trainer

OUTPUT, NUM_RANKS = Path(sys.argv[1]), int(sys.argv[2])
ALONE = dp.get_world_size() == 1
BATCH_SIZE = 2 * NUM_RANKS if ALONE else 2
DROPOUT = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


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
    if dp.get_world_size() == 1:  # stock's Trainer shuffles otherwise; this hooks it
        dp.install(dp.DataParallelConfig(async_save=True))
    seed_everything(3)
    model, digests = build(), Digests()
    arguments |= dict(max_steps=-1, num_train_epochs=2, logging_steps=1, adam_epsilon=1e-4)
    trainer = tiny_trainer(OUTPUT / name, model, packed_chats(6 * NUM_RANKS * 2), callbacks=[digests], **arguments)
    trainer.train(resume_from_checkpoint=resume)
    of_ranks = collectives.current().all_gather_object(digests.found)
    assert all(theirs == of_ranks[0] for theirs in of_ranks), "ranks differ"
    if dp.is_main_process():
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        (OUTPUT / f"{name}.json").write_text(json.dumps({"losses": losses, "digests": digests.found}))
        np.savez(OUTPUT / f"{name}.npz", *weights_of(model))
    dp.barrier()


if __name__ == "__main__":
    train("llama", save_strategy="steps", save_steps=4)
    train("gpt2", gpt2)
    mindspore.set_seed(100)  # nothing of what is in memory may matter
    train("resumed", resume=str(OUTPUT / "llama/checkpoint-4"))
    (OUTPUT / "grouped.txt").write_text(refusal_of(train, "grouped", group_by_length=True))
