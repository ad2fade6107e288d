"""Models, losses and collators of one's own: what each of them makes of rows, the Trainer weighs."""

import mindnlp_dp_plugin as dp  # isort: skip

import random

import torch
from mindtorch.autograd import value_and_grad
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback

from tests.mindnlp05.programs.models import VOCABULARY


class OwnModel(PreTrainedModel):
    """Guesses each word from itself; rows do not see each other, so they may lie in one."""

    def __init__(self):
        super().__init__(PretrainedConfig())
        self.words, self.head = nn.Embedding(VOCABULARY, 16), nn.Linear(16, VOCABULARY)

    def logits(self, input_ids):
        return self.head(torch.tanh(self.words(input_ids)))


class SumsItself(OwnModel):
    """As many remote models do: a sum over labels, divided by the number that it is told."""

    def forward(self, input_ids, labels=None, attention_mask=None, **kwargs):
        logits = self.logits(input_ids)
        number = kwargs.get("num_items_in_batch")
        if number is None:
            number = (labels != -100).sum()
        flat = logits.view(-1, VOCABULARY), labels.view(-1)
        return {"loss": nn.functional.cross_entropy(*flat, reduction="sum") / number, "logits": logits}


class TakesTheMean(OwnModel):
    """Takes further arguments, and a mean all the same."""

    def forward(self, input_ids, labels=None, attention_mask=None, **kwargs):
        logits = self.logits(input_ids)
        return {"loss": nn.functional.cross_entropy(logits.view(-1, VOCABULARY), labels.view(-1)), "logits": logits}


class Logits(OwnModel):
    """Leaves the loss to a function."""

    def forward(self, input_ids, attention_mask=None):
        return {"logits": self.logits(input_ids)}


class Normalised(nn.Module):
    """No model of transformers': classifies rows by what normalisation of batches, then of groups, leaves of words."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(VOCABULARY, 16), nn.Linear(16, VOCABULARY)
        self.norm, self.groups = nn.BatchNorm1d(16), nn.GroupNorm(2, 16)

    def forward(self, input_ids, labels=None, attention_mask=None):
        logits = self.head(self.groups(self.norm(self.words(input_ids).mean(1))))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def summed(outputs, labels, num_items_in_batch=None):
    flat = outputs["logits"].view(-1, VOCABULARY), labels.view(-1)
    return nn.functional.cross_entropy(*flat, reduction="sum") / num_items_in_batch


def flattened(rows):
    """One row of all their words, without padding."""
    lengths = [int(row["attention_mask"].sum()) for row in rows]
    return {
        name: torch.cat([row[name][:length] for row, length in zip(rows, lengths)])[None]
        for name in ("input_ids", "labels")
    }


def nested(rows):
    words, labels = (torch.stack([row[name] for row in rows]) for name in ("input_ids", "labels"))
    return {"text": {"words": words}, "classes": [labels]}


def doubled(rows):
    """Two rows of each."""
    return {name: torch.stack([row[name] for row in rows for _ in range(2)]) for name in ("input_ids", "labels")}


def few_chosen(rows):
    """One label a row, or two."""
    batch = {name: torch.stack([row[name] for row in rows]) for name in ("input_ids", "labels")}
    for row, words in enumerate(batch["input_ids"]):
        batch["labels"][row, 2 - int(words[0]) % 2 :] = -100
    return batch


def with_next_sentence(rows):
    """A label for each row beside those of its words."""
    batch = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    return {**batch, "next_sentence_label": batch["input_ids"][:, 0] % 2}


class OfRows(Trainer):
    """A mean over rows."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        words, labels = self.read(inputs)
        loss = nn.functional.cross_entropy(model(words)["logits"].mean(1), labels)
        return (loss, {}) if return_outputs else loss


class OfNested(OfRows):
    def read(self, inputs):
        return inputs["text"]["words"], inputs["classes"][0]


class OfDoubled(OfRows):
    def read(self, inputs):
        return inputs["input_ids"], inputs["labels"]


class OfTheModel(Trainer):
    """The model's own, by its outputs."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        return (outputs["loss"], outputs) if return_outputs else outputs["loss"]


class InBatchNegatives(OfRows):
    """Each row's first half against the second halves of all rows of the batch."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        logits = model(inputs["input_ids"])["logits"]
        half = logits.shape[1] // 2
        first, second = (dp.all_gather(part.mean(1)) for part in (logits[:, :half], logits[:, half:]))
        loss = nn.functional.cross_entropy(first @ second.T, torch.arange(len(first)))
        return (loss, {}) if return_outputs else loss


class ClassWeights(OfRows):
    """A mean that the weights of its labels normalise."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        weights = torch.linspace(0.2, 3, VOCABULARY)
        labels = inputs["labels"].view(-1)
        logits = model(inputs["input_ids"])["logits"].view(-1, VOCABULARY)
        total = nn.functional.cross_entropy(logits, labels, weight=weights, reduction="sum")
        loss = dp.global_mean(total, weights[labels[labels != -100]].sum())
        return (loss, {}) if return_outputs else loss


class PlainClassWeights(OfRows):
    """The same, as one process writes it."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        logits = model(inputs["input_ids"])["logits"].view(-1, VOCABULARY)
        weights = torch.linspace(0.2, 3, VOCABULARY)
        loss = nn.functional.cross_entropy(logits, inputs["labels"].view(-1), weight=weights)
        return (loss, {}) if return_outputs else loss


class LeavesOutZero(OfRows):
    """A mean over rows of another class."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        logits = model(inputs["input_ids"])["logits"].mean(1)
        loss = nn.CrossEntropyLoss(ignore_index=0)(logits, inputs["labels"])
        return (loss, {}) if return_outputs else loss


class ByName(PlainClassWeights):
    """The same, by a function that the script has imported, and the model's own layers."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        hidden = torch.tanh(model.words(inputs["input_ids"]))
        logits, weights = model.head(hidden).view(-1, VOCABULARY), torch.linspace(0.2, 3, VOCABULARY)
        loss = cross_entropy(logits, inputs["labels"].view(-1), weight=weights)
        return (loss, {}) if return_outputs else loss


class LeavesOutTheNumberOfClasses(OfRows):
    """A mean over rows of the first two of three classes."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        logits = model(inputs["input_ids"])["logits"].mean(1)[:, :2]
        loss = nn.functional.cross_entropy(logits, inputs["input_ids"][:, 0] % 3, ignore_index=2)
        return (loss, {}) if return_outputs else loss


class OfChosenWords(OfRows):
    """A mean over the words that have a label: as many as there are rows, on a rank and by chance."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        is_chosen = inputs["labels"] != -100
        loss = nn.functional.cross_entropy(model(inputs["input_ids"])["logits"][is_chosen], inputs["labels"][is_chosen])
        return (loss, {}) if return_outputs else loss


class RootOfAMean(OfRows):
    """A function of the mean over the rows of all ranks."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        logits = model(inputs["input_ids"])["logits"].mean(1)
        losses = nn.functional.cross_entropy(logits, inputs["labels"], reduction="none")
        loss = torch.sqrt(dp.global_mean(losses.sum(), len(losses)))
        return (loss, {}) if return_outputs else loss


class OfTags(Trainer):
    """A loss of labels in a column of another name."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(input_ids=inputs["input_ids"], labels=inputs["tags"])
        return (outputs["loss"], outputs) if return_outputs else outputs["loss"]


class OwnLoaders(Trainer):
    """Makes its loaders itself, as one process does."""

    def get_train_dataloader(self):
        return torch.utils.data.DataLoader(self.train_dataset, batch_size=self.args.per_device_train_batch_size)

    def get_eval_dataloader(self, eval_dataset=None):
        return torch.utils.data.DataLoader(eval_dataset, batch_size=self.args.per_device_eval_batch_size)


class PreparedLoaders(OwnLoaders):
    """Shares them out itself."""

    def get_train_dataloader(self):
        return self.accelerator.prepare(super().get_train_dataloader())

    def get_eval_dataloader(self, eval_dataset=None):
        return self.accelerator.prepare(super().get_eval_dataloader(eval_dataset))


class AddsATerm(Trainer):
    """What the Trainer computes, and more than that of its own."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        loss = loss + 5 * outputs["logits"].square().mean((1, 2)).mean()
        return (loss, outputs) if return_outputs else loss


class AddsATermLater(AddsATerm):
    """Not in the first epoch."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        kind = AddsATerm if self.state.epoch >= 1 else Trainer
        return kind.compute_loss(self, model, inputs, return_outputs, num_items_in_batch)


class DrawsATerm(AddsATerm):
    """Doubles what the Trainer computes in about half of the steps."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        found = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        return found * 2 if not return_outputs and random.random() < 0.5 else found


class OwnStep(Trainer):
    """Takes gradients by itself."""

    def training_step(self, model, inputs, num_items_in_batch=None):
        def loss():
            return self.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)

        return value_and_grad(loss, tuple(model.parameters()), attach_grads=True)().detach()


class DecaysAll(Trainer):
    """An optimizer of all parameters, of which some are frozen from the beginning, or from the third step on."""

    def create_optimizer(self):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, eps=1e-4, weight_decay=0.5)
        self.add_callback(Freezes())
        return self.optimizer


class Freezes(TrainerCallback):
    """Freezes the pooler after the second step."""

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step == 2:
            model.bert.pooler.requires_grad_(False)


class ReadsAPart(Trainer):
    """Fewer rows than there are."""

    def _get_train_sampler(self, rows=None):
        return torch.utils.data.SequentialSampler(range(45))


class OtherInEachEpoch(Trainer):
    """Rows that change with the epoch, of which a data set of one's own is told."""

    def __init__(self, *given, train_dataset, **more):
        super().__init__(*given, train_dataset=ByEpoch(train_dataset), **more)


class ByEpoch(torch.utils.data.Dataset):
    """Shifts the words of each row by the epoch."""

    def __init__(self, rows):
        self.rows, self.epoch = rows, 0

    def __len__(self):
        return len(self.rows)

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __getitem__(self, index):
        row = self.rows[index]
        return {**row, "input_ids": row["input_ids"].roll(self.epoch, 0)}


class DropsTheLast(OwnLoaders):
    """Batches of full size alone."""

    def get_train_dataloader(self):
        rows, size = self.train_dataset, self.args.per_device_train_batch_size
        return torch.utils.data.DataLoader(rows, batch_size=size, drop_last=True)
