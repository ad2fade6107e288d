"""What one process does and N ranks must do as well: evaluation, unfreezing, torch.distributed, what is refused.

    python behaviours.py OUTPUT

Leaves in ``rankN.json`` what each case returns.
"""

import mindnlp_dp_plugin as dp  # isort: skip
import mindnlp  # isort: skip  # noqa: F401

import json
import logging
import random
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data.distributed import DistributedSampler
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

from tests.mindnlp05.programs import models
from tests.mindnlp05.programs.own_losses import SumsItself, flattened

START = {"python": random.random(), "numpy": np.random.rand(), "torch": torch.rand(1).item()}  # no seed was set
OUTPUT = Path(sys.argv[1])
RANKS = dp.get_world_size()
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def usual_arguments():
    batch = 8 // RANKS
    return dict(
        output_dir=str(OUTPUT / "training"),
        per_device_train_batch_size=batch,
        per_device_eval_batch_size=batch,
        max_steps=3,
        optim="sgd",
        learning_rate=0.1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


def arguments(**options):
    return TrainingArguments(**{**usual_arguments(), **options})


def trainer(model=None, rows=24, options=None, **more):
    set_seed(1)
    model = models.bert() if model is None else model
    return Trainer(model, arguments(**(options or {})), train_dataset=models.Rows(rows), **more)


def digest(model):
    return dp.broadcast_object(float(sum(abs(p.asnumpy().astype(np.float64)).sum() for p in model.parameters())))


def parameters(model):
    return [round(float(value), 5) for p in model.parameters() for value in p.asnumpy().ravel()[:3]]


def raised(function):
    try:
        function()
    except dp.DataParallelError as error:
        return str(error)
    return "nothing was raised"


@case
def evaluation():
    """29 rows: the last batch is filled up on ranks."""

    def scores(prediction):
        logits, labels = prediction
        return {"rows": len(labels), "sum": float(logits.sum()), "right": int((logits.argmax(-1) == labels).sum())}

    set_seed(1)
    trainer_ = trainer(models.bert(), compute_metrics=scores)
    if dp.get_rank():
        for parameter in trainer_.model.parameters():
            parameter.copy_(parameter * 2)  # they are made equal first
    held = models.Rows(29, seed=5)
    metrics = trainer_.evaluate(held)
    predicted = trainer_.predict(held)
    kept = {name: metrics[f"eval_{name}"] for name in ("loss", "rows", "sum", "right")}
    return {**kept, "predicted": predicted.predictions.tolist(), "labels": predicted.label_ids.tolist()}


@case
def evaluation_of_sequences():
    """Rows that fill the last batch up are in no metric, and in no prediction."""
    count = {"compute_metrics": lambda prediction: {"rows": len(prediction.label_ids)}}
    rows = models.Rows(29, "tokens", seed=5)
    given = Seq2SeqTrainingArguments(**{**usual_arguments(), "predict_with_generate": False})
    set_seed(1)
    found = Seq2SeqTrainer(models.t5(), given, eval_dataset=rows, **count)
    metrics = found.evaluate()
    return [metrics["eval_rows"], len(found.predict(rows).label_ids), metrics["eval_loss"]]


@case
def the_best_checkpoint_is_saved_before_it_is_scored():
    """Steps are saved, and epochs scored: that of the first is the best known when the second is saved."""
    options = dict(
        metric_for_best_model="loss", eval_strategy="epoch", save_strategy="steps", save_steps=3, max_steps=6
    )
    options |= dict(output_dir=str(OUTPUT / "best"), save_total_limit=1)
    trainer_ = trainer(options=options, eval_dataset=models.Rows(8, seed=5))
    trainer_.train()
    return [
        Path(trainer_.state.best_model_checkpoint or "").name,
        sorted(p.name for p in Path(OUTPUT, "best").glob("c*")),
    ]


@case
def evaluation_by_loaders_of_ones_own():
    """One for each number of rows in a batch, of all ranks; the last batch is a short one."""

    class Own(Trainer):
        def get_eval_dataloader(self, rows=None):
            return torch.utils.data.DataLoader(rows, batch_size=self.size // RANKS, collate_fn=self.data_collator)

    found = []
    for Own.size in (8, 4, 16):
        set_seed(1)
        found.append(Own(models.bert(), arguments()).evaluate(models.Rows(29, seed=5))["eval_loss"])
    return found


@case
def metrics_that_ranks_measure_apart():
    held = models.Rows(8)
    return trainer(compute_metrics=lambda scored: {"seconds": time.perf_counter()}).evaluate(held)["eval_seconds"]


@case
def what_no_log_shows():
    """The loss of the last steps, which are logged with the end alone."""
    trainer_ = trainer(options={"max_steps": 5, "logging_steps": 3})
    return [trainer_.train().training_loss, trainer_.state.log_history[-1]["train_loss"]]


@case
def evaluation_without_padding():
    """13 rows, which do not divide, each batch in one row."""
    set_seed(1)
    given = SumsItself(), arguments(remove_unused_columns=False, prediction_loss_only=True)
    return Trainer(*given, data_collator=flattened).evaluate(models.Rows(13, "tokens", seed=5))["eval_loss"]


@case
def a_loss_that_gathers():
    """How many rows each batch has of all ranks, and are right; 29 rows, and 13 to evaluate, do not divide."""
    noted = []

    class Gathers(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
            right = (outputs.logits.argmax(-1) == inputs["labels"]).float()
            gathered = self.accelerator.gather_for_metrics(right)
            if model.training:
                noted.append([len(gathered), gathered.sum().item()])
            return (loss, outputs) if return_outputs else loss

    set_seed(1)
    given = models.bert(), arguments(max_steps=4)
    trainer_ = Gathers(*given, train_dataset=models.Rows(29), eval_dataset=models.Rows(13, seed=5))
    trainer_.train()
    return [*noted, trainer_.evaluate()["eval_loss"], *parameters(trainer_.model)]


@case
def a_step_without_labels():
    """The last row, alone in its batch, has none; another rank has the first row in its place."""

    class InOrder(Trainer):
        def _get_train_sampler(self, rows=None):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    words = models.Rows(9).words
    rows = [{"input_ids": torch.tensor(row), "labels": torch.tensor(row)} for row in words]
    rows[8]["labels"] = torch.full((12,), -100)
    set_seed(1)
    model = models.gpt2()
    adam = dict(optim="adamw_torch", learning_rate=1e-3, adam_epsilon=1e-4)
    InOrder(model, arguments(max_steps=2, **adam), train_dataset=rows).train()
    return parameters(model)


@case
def work():
    """Floating point operations and tokens, of which another rank's row is no part; and what the legacy loop finds."""
    counting = {"max_steps": -1, "num_train_epochs": 2, "include_num_input_tokens_seen": "non_padding"}
    trainer_ = trainer(rows=26, options={**counting, "use_legacy_prediction_loop": True})
    trainer_.train()
    loss = trainer_.evaluate(models.Rows(29, seed=5))["eval_loss"]
    return [trainer_.state.total_flos, trainer_.state.num_input_tokens_seen, loss]


def drawn():
    """By each generator."""
    return {
        "python": random.random(),
        "numpy": np.random.rand(),
        "torch": torch.rand(1).item(),
        "filled": torch.empty(1).normal_().item(),
    }


@case
def draws():
    """What was drawn while rows were read, in the model and in a callback; and behind training."""

    class Drawing(type(models.bert())):
        def forward(self, input_ids=None, attention_mask=None, labels=None):
            if self.training:
                noted["model"].append(drawn())
            return super().forward(input_ids, attention_mask, labels=labels)

    class InCallback(TrainerCallback):
        def on_step_end(self, *args, **kwargs):
            noted["callback"].append(drawn())

    def collator(rows):
        noted["read"].append(drawn())
        return default_data_collator(rows)

    noted = {name: [] for name in ("start", "read", "evaluated", "model", "callback", "behind")}
    noted["start"].append(START)
    set_seed(1)
    model = Drawing(models.bert(hidden_dropout_prob=0.1).config)
    trainer_ = trainer(model, rows=29, data_collator=collator, callbacks=[InCallback()], options={"max_steps": 8})
    trainer_.train()
    read = noted["read"].copy()
    noted["read"].clear()
    trainer_.evaluate(models.Rows(29))
    noted |= {"evaluated": noted["read"], "read": read}
    noted["behind"].append(drawn())
    return noted


@case
def token_evaluation():
    """The loss of a causal language model."""
    set_seed(1)
    model = models.gpt2()
    return Trainer(model, arguments(), eval_dataset=models.Rows(32, "tokens", seed=5)).evaluate()["eval_loss"]


@case
def second_training_and_unfreezing():
    model = models.bert()
    model.bert.requires_grad_(False)
    first = trainer(model)
    first.train()
    after_first = parameters(model)
    model.bert.requires_grad_(True)
    first.optimizer = None
    first.train()
    return [after_first, parameters(model), digest(model)]


@case
def unfrozen_by_a_callback():
    class Unfreeze(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, optimizer=None, **kwargs):
            if state.global_step == 1:
                model.bert.pooler.requires_grad_(True)
                optimizer.add_param_group({"params": list(model.bert.pooler.parameters())})

    set_seed(1)
    model = models.bert()
    model.bert.requires_grad_(False)
    options = {"lr_scheduler_type": "constant"}  # torch's others keep the number of groups
    trainer(model, options=options, callbacks=[Unfreeze()]).train()
    return parameters(model)


@case
def a_subclass_with_a_loss_of_its_own():
    class Doubling(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            return (outputs.loss * 2, outputs) if return_outputs else outputs.loss * 2

    set_seed(1)
    model = models.bert()
    Doubling(model, arguments(), train_dataset=models.Rows(24)).train()
    return parameters(model)


@case
def rows_padded_apart():
    """What is said of rows as long as their batch needs, which no mask tells from padding."""
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    told = logging.getLogger("mindnlp_dp_plugin.step.padded_rows")
    told.addHandler(handler)

    def padded(rows):
        longest = 3 + max(int(row["input_ids"][0]) % 7 for row in rows)
        return {
            "input_ids": torch.stack([row["input_ids"][:longest] for row in rows]),
            "labels": torch.stack([row["labels"] for row in rows]),
        }

    trainer(data_collator=padded).train()
    told.removeHandler(handler)
    return said


@case
def orders():
    """The rows of two epochs, by the sampler that gives their order."""

    class Noting(Trainer):
        def training_step(self, model, inputs, *args):
            read.extend(row.asnumpy().tobytes().hex() for row in inputs["input_ids"])
            return super().training_step(model, inputs, *args)

    class Weighted(Noting):
        def _get_train_sampler(self, rows=None):
            return torch.utils.data.WeightedRandomSampler([1.0] * 24, 24, replacement=False)

    found = {}
    rows = models.Rows(24)
    names = {rows[index]["input_ids"].asnumpy().tobytes().hex(): index for index in range(24)}
    for name, kind, options in (("by_length", Noting, {"group_by_length": True}), ("weighted", Weighted, {})):
        read = []
        set_seed(1)
        model = models.bert(hidden_dropout_prob=0.1)
        kind(model, arguments(max_steps=6, **options), train_dataset=rows).train()
        half = len(read) // 2
        of_ranks = dp.all_gather_object([read[:half], read[half:]])
        found[name] = [[names[row] for rank in of_ranks for row in rank[epoch]] for epoch in (0, 1)]
    return found


@case
def distributed_functions():
    """On ranks alone."""
    if RANKS == 1:
        return None
    distributed, rank = torch.distributed, dp.get_rank()
    mine = torch.tensor([1.0 + rank, 2.0])
    summed, largest = mine.clone(), torch.tensor([rank, 5])
    distributed.all_reduce(summed)
    distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)
    sent = torch.tensor([float(rank)])
    distributed.broadcast(sent, src=1)
    gathered = [torch.zeros(2) for _ in range(RANKS)]
    distributed.all_gather(gathered, mine)
    whole = torch.zeros(2 * RANKS, dtype=torch.int64)
    distributed.all_gather_into_tensor(whole, torch.tensor([rank, rank]))
    objects, told = [None] * RANKS, [f"of {rank}"]
    distributed.all_gather_object(objects, {"rank": rank})
    on_zero = [None] * RANKS if rank == 0 else None
    distributed.gather_object(rank, on_zero)
    distributed.broadcast_object_list(told, src=0)
    distributed.barrier()
    return {
        "place": [distributed.get_rank(), distributed.get_world_size(), distributed.is_initialized()],
        "summed": summed.tolist(),
        "largest": largest.tolist(),
        "sent": sent.tolist(),
        "gathered": [tensor.tolist() for tensor in gathered],
        "whole": whole.tolist(),
        "objects": objects,
        "on_zero": on_zero,
        "told": told,
        "new_group": raised(distributed.new_group),
    }


@case
def gradients_come_through_hooks():
    """How many of the parameters' gradients, and whether buckets start before backward ends."""
    if RANKS == 1:
        return None
    from mindnlp_dp_plugin.ddp.reducer import GradientReducer

    seen = []
    on_gradient, finish = GradientReducer._on_gradient, GradientReducer.finish

    def counted(self, index, gradient):
        found = on_gradient(self, index, gradient)
        if self._pass is not None:
            seen.append((index, self._filling.num_started))
        return found

    def noted(self):
        seen.append("finish")
        finish(self)

    GradientReducer._on_gradient, GradientReducer.finish = counted, noted
    try:
        dp.install(dp.DataParallelConfig(bucket_cap_mb=0.01))
        model = models.bert()
        trainer(model, options={"max_steps": 2}).train()
    finally:
        GradientReducer._on_gradient, GradientReducer.finish = on_gradient, finish
    of_last_step = seen[seen.index("finish") + 1 : -1]
    return {
        "hooks": len({index for index, _ in of_last_step}),
        "parameters": sum(parameter.requires_grad for parameter in model.parameters()),
        "buckets that had started": of_last_step[-1][1],
    }


class OwnBatches(Trainer):
    """Reads what no one can share out."""

    def get_train_dataloader(self):
        batches = torch.utils.data.BatchSampler(range(24), 4, True)
        return torch.utils.data.DataLoader(self.train_dataset, batch_sampler=[*batches])


class Buckets(torch.utils.data.BatchSampler):
    """Rows of a kind together, of which the last batch of each is short."""

    def __iter__(self):
        yield from ([0, 1, 2, 3], [4, 5], [6, 7, 8, 9], [10, 11, 12, 13])


class InBuckets(Trainer):
    def get_train_dataloader(self):
        batches = Buckets(range(14), self.args.per_device_train_batch_size, drop_last=False)
        loader = torch.utils.data.DataLoader(self.train_dataset, batch_sampler=batches)
        return self.accelerator.prepare(loader)


class Dealt(Trainer):
    """Divides its rows, as scripts for torch do."""

    def get_train_dataloader(self):
        rows = self.train_dataset
        loader = torch.utils.data.DataLoader(rows, batch_size=4, sampler=DistributedSampler(rows, RANKS, dp.get_rank()))
        return self.accelerator.prepare(loader) if self.args.seed == 1 else loader


@case
def refusals():
    """Each as a line."""
    loss = models.bert()(**{name: value[None] for name, value in models.Rows(1)[0].items()}).loss
    options = {
        "gradient_checkpointing": {"gradient_checkpointing": True},
        "fp16": {"fp16": True},
        "fused": {"optim": "adamw_torch_fused"},
        "fsdp": {"fsdp": "full_shard"},
        "deepspeed": {"deepspeed": {"zero_optimization": {"stage": 1}}},
        "workers": {"dataloader_num_workers": 2},
    }

    def train(given):
        return lambda: trainer(options=given).train()

    found = {name: raised(train(given)) for name, given in options.items()}
    found["backward"] = raised(loss.backward)
    found["prepare"] = raised(lambda: dp.prepare)
    if RANKS > 1:
        found["auto_find_batch_size"] = raised(lambda: trainer(options={"auto_find_batch_size": True}).train())
        uneven = {"accelerator_config": {"even_batches": False}}
        found["even_batches"] = raised(lambda: trainer(options=uneven).train())
        found["loaders"] = raised(lambda: OwnBatches(models.bert(), arguments(), train_dataset=models.Rows(24)).train())
        found["buckets"] = raised(InBuckets(models.bert(), arguments(), train_dataset=models.Rows(24)).train)
        for name, seed in (("dealt", 0), ("dealt_and_prepared", 1)):
            dealt = Dealt(models.bert(), arguments(seed=seed), train_dataset=models.Rows(24))
            found[name] = raised(dealt.train)
        found["rows"] = raised(lambda: trainer(rows=24 + dp.get_rank()).train())
        other = models.Rows(24, seed=dp.get_rank())
        found["other_rows"] = raised(Trainer(models.bert(), arguments(), train_dataset=other).train)
        found["other_held"] = raised(lambda: Trainer(models.bert(), arguments()).evaluate(other))
        found["zero_stage"] = raised(lambda: dp.install(dp.DataParallelConfig(zero_stage=1)))
        dp.install()
    return found


@case
def an_optimizer_of_ones_own():
    """Last, as the rank that raised may be ahead of the others."""
    if RANKS == 1:
        return None
    model = models.bert()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return raised(optimizer.step)


if __name__ == "__main__":
    notes = {name: function() for name, function in CASES.items()}
    (OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(notes))
