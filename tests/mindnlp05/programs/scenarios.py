"""Train scenarios by Hugging Face's Trainer: the global batch is the same on any number of ranks.

    python scenarios.py OUTPUT NAME...

Leaves for each the parameters at the end, and what the ranks noted after each step.
"""

import mindnlp_dp_plugin as dp  # isort: skip
import mindnlp  # isort: skip  # noqa: F401

import sys

import numpy as np
import torch
from transformers import Trainer, TrainerCallback, set_seed

from tests.mindnlp05.programs import models
from tests.mindnlp05.programs.own_losses import (
    AddsATerm,
    AddsATermLater,
    ByName,
    ClassWeights,
    DecaysAll,
    DrawsATerm,
    DropsTheLast,
    InBatchNegatives,
    LeavesOutTheNumberOfClasses,
    LeavesOutZero,
    Logits,
    Normalised,
    OfChosenWords,
    OfDoubled,
    OfNested,
    OfTags,
    OfTheModel,
    OtherInEachEpoch,
    OwnLoaders,
    OwnStep,
    PlainClassWeights,
    PreparedLoaders,
    ReadsAPart,
    RootOfAMean,
    SumsItself,
    TakesTheMean,
    doubled,
    few_chosen,
    flattened,
    nested,
    summed,
    with_next_sentence,
)  # fmt: skip
from tests.programs.noted import digest_of, flat

GLOBAL_BATCH = 12  # for one process, two ranks and three
ADAMW = dict(optim="adamw_torch", learning_rate=1e-3, adam_epsilon=1e-4)  # rounding of gradients near 0
SGD = dict(optim="sgd", learning_rate=0.1)

SCENARIOS = {
    "bert_sgd": (models.bert, "class", {**SGD, "num_train_epochs": 2}),
    "bert_adamw": (models.bert, "class", ADAMW),
    "roberta_adamw": (models.roberta, "class", ADAMW),
    "distilbert_sgd": (models.distilbert, "class", SGD),
    "llama_lora": (models.llama, "tokens", ADAMW),
    "qwen2_lora": (models.qwen2, "tokens", ADAMW),
    "llama_regression": (models.llama_regression, "float", SGD),
    "token_classifier": (models.token_classifier, "tokens", SGD),
    "llama_classifier": (models.llama_classifier, "class", SGD),
    "gpt2_sgd": (models.gpt2, "tokens", SGD),
    "gpt2_adamw": (models.gpt2, "tokens", ADAMW),
    "masked_bert": (models.masked_bert, "tokens", SGD),
    "t5": (models.t5, "tokens", SGD),
    "bart": (models.bart, "tokens", SGD),
    "smoothed_bert": (models.bert, "class", {**SGD, "label_smoothing_factor": 0.1}),
    "smoothed_gpt2": (models.gpt2, "tokens", {**SGD, "label_smoothing_factor": 0.1}),
    "accumulation": (models.bert, "class", {**SGD, "gradient_accumulation_steps": 2}),
    "accumulated_tokens": (models.t5, "tokens", {**SGD, "gradient_accumulation_steps": 2}),
    "unclipped": (models.bert, "class", {**SGD, "max_grad_norm": 0.0}),
    "momentum": (models.bert, "class", {**SGD, "momentum": 0.9}),
    "frozen": (models.frozen, "class", SGD),
    "unused": (models.unused, "class", ADAMW),
}
ACCUMULATED = {**SGD, "gradient_accumulation_steps": 3}
OWN = {  # with what else the Trainer gets
    "sums_itself": (SumsItself, "tokens", SGD, {}),
    "sums_itself_accumulated": (SumsItself, "tokens", ACCUMULATED, {}),
    "takes_the_mean": (TakesTheMean, "tokens", SGD, {}),
    "loss_function": (Logits, "tokens", ACCUMULATED, {"compute_loss_func": summed}),
    "flattened": (SumsItself, "tokens", SGD, {"data_collator": flattened}),
    "flattened_accumulated": (SumsItself, "tokens", ACCUMULATED, {"data_collator": flattened}),
    "flattened_mean": (TakesTheMean, "tokens", SGD, {"data_collator": flattened}),
    "nested": (Logits, "class", ACCUMULATED, {"data_collator": nested, "kind": OfNested}),
    "doubled": (Logits, "class", SGD, {"data_collator": doubled, "kind": OfDoubled}),
    "of_the_model": (models.token_classifier, "tokens", ACCUMULATED, {"kind": OfTheModel}),
    "of_the_model_and_counted": (TakesTheMean, "tokens", SGD, {"kind": OfTheModel}),
    "in_batch_negatives": (Logits, "class", SGD, {"kind": InBatchNegatives}),
    "in_batch_negatives_accumulated": (Logits, "class", ACCUMULATED, {"kind": InBatchNegatives}),
    "class_weights": (Logits, "tokens", SGD, {"kind": ClassWeights}),
    "plain_class_weights": (Logits, "tokens", ACCUMULATED, {"kind": PlainClassWeights}),
    "leaves_out_zero": (Logits, "class", SGD, {"kind": LeavesOutZero}),
    "leaves_out_the_number_of_classes": (Logits, "class", SGD, {"kind": LeavesOutTheNumberOfClasses}),
    "class_weights_by_name": (Logits, "tokens", SGD, {"kind": ByName}),
    "of_chosen_words": (Logits, "tokens", SGD, {"kind": OfChosenWords, "data_collator": few_chosen}),
    "root_of_a_mean": (Logits, "class", SGD, {"kind": RootOfAMean}),
    "normalised": (Normalised, "class", SGD, {}),
    "experts": (models.mixtral, "tokens", SGD, {}),
    "pretraining": (models.pretraining, "tokens", SGD, {"data_collator": with_next_sentence}),
    "tags": (TakesTheMean, "tags", {**SGD, "label_names": ["tags"]}, {"kind": OfTags}),
    "own_loaders": (models.bert, "class", {**SGD, "num_train_epochs": 2}, {"kind": OwnLoaders}),
    "adds_a_term": (SumsItself, "tokens", ACCUMULATED, {"kind": AddsATerm}),
    "adds_a_term_later": (SumsItself, "tokens", {**SGD, "num_train_epochs": 2}, {"kind": AddsATermLater}),
    "own_step": (TakesTheMean, "tokens", SGD, {"kind": OwnStep}),
    "own_step_of_a_sum": (SumsItself, "tokens", SGD, {"kind": OwnStep}),
    "draws_a_term": (SumsItself, "tokens", ACCUMULATED, {"kind": DrawsATerm}),
    "decays_all": (models.frozen, "class", ADAMW, {"kind": DecaysAll}),
    "reads_a_part": (models.bert, "class", {**SGD, "num_train_epochs": 2}, {"kind": ReadsAPart}),
    "other_in_each_epoch": (models.bert, "class", {**SGD, "num_train_epochs": 2}, {"kind": OtherInEachEpoch}),
    "drops_the_last": (models.bert, "class", {**SGD, "num_train_epochs": 2}, {"kind": DropsTheLast}),
    "not_across_devices": (SumsItself, "tokens", {**SGD, "average_tokens_across_devices": False}, {}),
    "prepared_loaders": (models.bert, "class", {**SGD, "num_train_epochs": 2}, {"kind": PreparedLoaders}),
}


class Digests(TrainerCallback):
    """What each rank holds after each step."""

    def __init__(self, model):
        self.model, self.of_steps = model, []

    def on_step_end(self, *args, **kwargs):
        self.of_steps.append(digest_of(self.model))


def train(name, output):
    build, labels, options, given_too = OWN[name] if name in OWN else (*SCENARIOS[name], {})
    options, given_too = dict(options), dict(given_too)
    kind = given_too.pop("kind", Trainer)
    given = dict(lr=options["learning_rate"], momentum=options.pop("momentum", 0.0))
    set_seed(1)
    model = build()
    if dp.get_rank():  # replicas start apart
        for parameter in model.parameters():
            parameter.copy_(parameter + 1)
    digests, batch = Digests(model), GLOBAL_BATCH // dp.get_world_size()
    usual = dict(logging_steps=1, save_strategy="no", remove_unused_columns=name not in OWN, num_train_epochs=1)
    usual |= dict(per_device_train_batch_size=batch, per_device_eval_batch_size=batch)
    # 53 rows: the last batch of an epoch is filled up on ranks, and is not in one process.
    more = {"optimizer_cls_and_kwargs": (torch.optim.SGD, given)} if given["momentum"] else {}
    rows = models.Rows(53, labels)
    trainer = models.trainer_of(output / name, model, rows, kind, [digests], more | given_too, **{**usual, **options})
    trainer.train()
    # Of 17 rows, the last batch has five, and is filled up on ranks.
    rows = models.Rows(17, labels, seed=1)
    score = trainer.evaluate(rows).get("eval_loss", 0.0) if name in SCENARIOS else 0.0
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    np.savez(
        output / f"{name}.rank{dp.get_rank()}.npz",
        parameters=flat(model),
        digests=digests.of_steps,
        losses=losses,
        score=score,
    )


if __name__ == "__main__":
    from pathlib import Path

    folder, *names = sys.argv[1:]
    for name in names:
        train(name, Path(folder))
