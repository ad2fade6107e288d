"""Train each named scenario and leave what happened in ``<output>/<scenario>.rank<r>.npz``.

    python train_scenarios.py OUTPUT EMULATED_RANKS SCENARIO...

Started as ranks, EMULATED_RANKS is their number; started alone, how many ranks' batches the one process takes at once.
Models, data and optimizers are the same in both cases.
"""

import hashlib
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn, ops
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments
from mindnlp.peft import LoraConfig, TaskType, get_peft_model
from mindnlp.transformers import (
    BertConfig,
    BertForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

import mindnlp_dp_plugin
from tests.programs.scenarios import SCENARIOS
from tests.programs.tiny import SIZES, seed_everything, tiny_dataset

BATCH_SIZE = 8
NUM_LABELS = 3
CONFIG = dict(
    max_position_embeddings=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    num_labels=NUM_LABELS,
    **SIZES,
)


class WithExtraParameters(nn.Module):
    """A classifier with one parameter nobody uses, or one that only rank 1's rows use, or weights used twice."""

    def __init__(self, classifier, change, num_ranks):
        super().__init__()
        self.classifier = classifier
        self.extra = nn.Parameter(ops.zeros(NUM_LABELS))
        self.mixer = nn.Linear(NUM_LABELS, NUM_LABELS)
        self.mixer_again = self.mixer
        self.change = change
        self.num_ranks = num_ranks

    def forward(self, input_ids, labels):
        logits = self.classifier(input_ids=input_ids).logits
        if self.change == "used_by_one_rank":
            if mindnlp_dp_plugin.get_world_size() == 1:
                belongs_to_rank_1 = np.arange(len(labels)) % self.num_ranks == 1
                logits = logits + mindspore.Tensor(belongs_to_rank_1[:, None].astype(np.float32)) * self.extra
            elif mindnlp_dp_plugin.get_rank() == 1:
                logits = logits + self.extra
        if self.change == "tied_weights":
            logits = logits + self.mixer_again(ops.tanh(self.mixer(logits)))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def build_model(scenario, num_ranks):
    seed_everything(3 + 10 * mindnlp_dp_plugin.get_rank())  # replicas start apart: the plugin makes them equal
    if scenario.model == "bert":
        model = BertForSequenceClassification(BertConfig(**CONFIG))
    else:
        model = RobertaForSequenceClassification(RobertaConfig(pad_token_id=1, **CONFIG))
    if scenario.change in ("unused_parameter", "used_by_one_rank", "tied_weights"):
        model = WithExtraParameters(model, scenario.change, num_ranks)
    if scenario.change == "lora":
        model = get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_CLS, r=4, lora_alpha=8))
    if scenario.change == "frozen_embeddings":
        for parameter in model.bert.embeddings.parameters():
            parameter.requires_grad = False
    return model


def build_dataset(scenario, num_ranks, batch_size):
    return tiny_dataset(scenario.num_batches * BATCH_SIZE * num_ranks, batch_size)


class Recorder(TrainerCallback):
    """After each step: the gradients it was made with, a digest of the parameters it led to, the loss logged."""

    def __init__(self):
        self.gradients, self.digests, self.loss_sums = [], [], []

    def on_log(self, args, state, control, **kwargs):
        if len(self.loss_sums) < state.global_step:
            self.loss_sums.append(self.trainer._total_loss_scalar)  # the log itself is rounded to four digits

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.gradients.append(self.latest)
        digest = hashlib.sha256()
        for parameter in model.parameters():
            digest.update(parameter.asnumpy().tobytes())
        self.digests.append(digest.hexdigest())


class RecordingTrainer(Trainer):
    def update_gradient_by_distributed_type(self, model):
        super().update_gradient_by_distributed_type(model)
        gradients = (p.grad for p in model.parameters() if p.requires_grad and p.grad is not None)
        self.recorder.latest = np.concatenate([gradient.asnumpy().ravel() for gradient in gradients])


def train(name, scenario, output, num_ranks):
    alone = mindnlp_dp_plugin.get_world_size() == 1
    mindnlp_dp_plugin.install(mindnlp_dp_plugin.DataParallelConfig(**dict(scenario.config)))
    arguments = TrainingArguments(
        output_dir=str(output / f"{name}_trainer"),
        optim=scenario.optimizer,
        learning_rate=1e-3 if scenario.optimizer == "adamw" else 1e-1,
        adam_epsilon=1e-4,  # else Adam turns the rounding noise of true zeros (key biases) into full steps
        lr_scheduler_type="linear",
        max_grad_norm=1.0,
        max_steps=scenario.num_steps,
        gradient_accumulation_steps=scenario.accumulation,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
    )
    model = build_model(scenario, num_ranks)
    dataset = build_dataset(scenario, num_ranks, BATCH_SIZE * num_ranks if alone else BATCH_SIZE)
    recorder = Recorder()
    trainer = RecordingTrainer(model=model, args=arguments, train_dataset=dataset, callbacks=[recorder])
    trainer.recorder, recorder.trainer = recorder, trainer
    result = trainer.train()
    np.savez(
        output / f"{name}.rank{mindnlp_dp_plugin.get_rank()}.npz",
        parameters=np.concatenate([p.asnumpy().ravel() for p in model.parameters()]),
        gradients=np.stack(recorder.gradients),
        digests=np.array(recorder.digests),
        losses=np.diff(recorder.loss_sums, prepend=0.0),
        train_loss=result.training_loss,
    )


if __name__ == "__main__":
    output_folder, emulated_ranks, *names = sys.argv[1:]
    for name in names:
        train(name, SCENARIOS[name], Path(output_folder), int(emulated_ranks))
