"""Train as users do beyond the stock loop, and leave what each habit ended with in ``OUTPUT/<habit>.rank<r>.npz``.

    python habits.py OUTPUT NUM_RANKS

Started alone, one process takes the batches of NUM_RANKS ranks at once, with MindNLP's own Trainer. What is said of
habits that ranks cannot follow is left in ``OUTPUT/said.rank<r>.json``.
"""

import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn, ops
from mindnlp.core.autograd import value_and_grad
from mindnlp.core.optim import SGD, AdamW
from mindnlp.engine import Trainer, TrainerCallback

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives
from tests.programs.adversarial import FGMTrainer, PGDTrainer
from tests.programs.noted import refusal_of
from tests.programs.tiny import tiny_dataset, tiny_trainer, without_dropout

OUTPUT, NUM_RANKS = Path(sys.argv[1]), int(sys.argv[2])
RANK = dp.get_rank()
BATCH_SIZE = 8 * NUM_RANKS // dp.get_world_size()
HABITS, REFUSALS = {}, {}


def habit(build):
    """A function that returns a Trainer, and tensors trained beside the model."""
    HABITS[build.__name__] = build
    return build


def refused(build):
    """A function that returns a Trainer whose ``train`` is to raise on all ranks."""
    REFUSALS[build.__name__] = build
    return build


def trainer_of(trainer_type=Trainer, model=None, callbacks=None, output=OUTPUT / "trainer", **arguments):
    options = dict(adam_epsilon=1e-4, max_steps=6, logging_steps=6, **arguments)
    dataset = tiny_dataset(num_rows=8 * NUM_RANKS * 4, batch_size=BATCH_SIZE)
    model = model or without_dropout()
    return tiny_trainer(output, model, dataset, trainer_type, callbacks, **options)


class AtStep(TrainerCallback):
    """Does something with the Trainer once a number of steps are made."""

    def __init__(self, **actions):
        self.actions = {int(step.removeprefix("step_")): action for step, action in actions.items()}

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step in self.actions:
            self.actions[state.global_step](self.trainer)


def acting(**options):
    """A Trainer with an ``AtStep``."""
    actions = {name: options.pop(name) for name in list(options) if name.startswith("step_")}
    return trainer_of(callbacks=[AtStep(**actions)], **options)


def freeze_all_but_the_head(model):
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("classifier")
    return model


def unfreeze(part):
    def do(trainer):
        parameters = [p for name, p in trainer.model.named_parameters() if part in name]
        for parameter in parameters:
            parameter.requires_grad = True
        trainer.optimizer.add_param_group({"params": parameters, "lr": 5e-4})
        trainer.grad_fn = None

    return do


@habit
def gradual_unfreezing():
    model = freeze_all_but_the_head(without_dropout())
    return acting(model=model, step_2=unfreeze("pooler"), step_4=unfreeze("encoder.layer.1")), []


@habit
def gradual_unfreezing_with_accumulation():
    model = freeze_all_but_the_head(without_dropout())
    return acting(model=model, step_1=unfreeze("pooler"), gradient_accumulation_steps=2), []


@habit
def activations_computed_again():
    return trainer_of(recompute=True), []


@habit
def an_optimizer_that_takes_the_place_of_another():
    def replace(trainer):
        for parameter in trainer.model.parameters():
            parameter.requires_grad = True
        trainer.optimizer = SGD(trainer.model.parameters(), lr=0.1)
        trainer.grad_fn = None

    return acting(model=freeze_all_but_the_head(without_dropout()), step_3=replace), []


@habit
def two_learning_rates():
    trainer = trainer_of()
    head = list(trainer.model.classifier.parameters())
    groups = [{"params": trainer.model.bert.parameters()}, {"params": head, "lr": 1e-2}]
    trainer.optimizer = AdamW(groups, lr=1e-3, eps=1e-4)
    return trainer, []


class MovingAverage(TrainerCallback):
    """Of the weights, as is evaluated in their place."""

    def __init__(self, model):
        self.values = [mindspore.Tensor(parameter.asnumpy()) for parameter in model.parameters()]

    def on_step_end(self, args, state, control, model=None, **kwargs):
        for average, parameter in zip(self.values, model.parameters()):
            average.assign_value(0.9 * average + 0.1 * parameter)


@habit
def a_moving_average_of_weights():
    model = without_dropout()
    average = MovingAverage(model)
    return trainer_of(model=model, callbacks=[average]), average.values


class WithLossWeight(Trainer):
    """Uncertainty weighting: the loss has a parameter of its own, which each rank begins otherwise."""

    def compute_loss(self, model, inputs, return_outputs=False):
        loss = super().compute_loss(model, inputs)
        return (ops.exp(-self.log_variance) * loss + self.log_variance).sum()


@habit
def a_weight_of_the_loss():
    trainer = trainer_of(WithLossWeight)
    trainer.log_variance = nn.Parameter(mindspore.Tensor([0.3 + RANK], mindspore.float32))
    trainer.optimizer = AdamW([*trainer.model.parameters(), trainer.log_variance], lr=1e-2, eps=1e-4)
    return trainer, [trainer.log_variance]


@habit
def a_weight_of_the_loss_that_comes_later():
    def add(trainer):
        trainer.optimizer.add_param_group({"params": [trainer.log_variance], "lr": 0.1})
        trainer.grad_fn = None

    trainer = acting(trainer_type=WithLossWeight, step_2=add)
    trainer.log_variance = nn.Parameter(mindspore.Tensor([0.3], mindspore.float32))
    return trainer, [trainer.log_variance]


class VirtualAdversary(Trainer):
    """Perturbs each row's embeddings along its own gradient; that of the parameters is taken, too, and dropped."""

    def compute_loss(self, model, inputs, return_outputs=False):
        labels = inputs["labels"]
        embedded = model.get_input_embeddings()(inputs["input_ids"])

        def perturbed(shift):
            return model(inputs_embeds=embedded + shift, labels=labels).loss

        weights = tuple(model.parameters())
        gradient = mindspore.value_and_grad(perturbed, 0, weights)(ops.zeros_like(embedded))[1][0]
        norms = ops.sqrt((gradient * gradient).sum(dim=(1, 2), keepdim=True))
        return perturbed(mindspore.ops.stop_gradient(gradient / (norms + 1e-12)))


@habit
def gradients_inside_compute_loss():
    return trainer_of(VirtualAdversary), []


@habit
def gradients_inside_compute_loss_with_accumulation():
    return trainer_of(VirtualAdversary, gradient_accumulation_steps=2), []


class TakesGradients(TrainerCallback):
    def on_step_begin(self, args, state, control, model=None, **kwargs):
        ids = mindspore.ops.ones((2, 12), mindspore.int32)
        mindspore.value_and_grad(lambda: model(input_ids=ids).logits.sum(), None, tuple(model.parameters()))()

    on_step_end = on_step_begin


@habit
def gradients_in_callbacks():
    return trainer_of(callbacks=[TakesGradients()]), []


@habit
def fast_gradient_method():
    return trainer_of(FGMTrainer), []


@habit
def fast_gradient_method_with_accumulation():
    return trainer_of(FGMTrainer, gradient_accumulation_steps=2), []


@habit
def projected_gradient_descent():
    return trainer_of(PGDTrainer), []


class OwnStep(Trainer):
    """Neither ``super().training_step`` nor ``update_gradient_by_distributed_type``."""

    def training_step(self, model, inputs):
        step = value_and_grad(lambda: self.compute_loss(model, inputs), tuple(model.parameters()), attach_grads=True)
        return step()


@habit
def a_training_step_of_ones_own():
    return trainer_of(OwnStep), []


class TwoBackwards(Trainer):
    """Beside the Trainer's own backward one more, which nobody averages."""

    def training_step(self, model, inputs):
        loss = super().training_step(model, dict(inputs))
        penalty = value_and_grad(lambda: 0.1 * model(**inputs).logits.mean(), tuple(model.parameters()))
        penalty()
        return loss


@habit
def a_second_backward_after_the_trainers():
    return trainer_of(TwoBackwards), []


class ChangesGradients(Trainer):
    def training_step(self, model, inputs):
        loss = super().training_step(model, inputs)
        for name, parameter in model.named_parameters():
            if "embeddings" in name:
                parameter.grad = parameter.grad * 0.5
        return loss


@habit
def gradients_changed_after_backward():
    return trainer_of(ChangesGradients), []


class AveragesNothing(Trainer):
    def update_gradient_by_distributed_type(self, model):
        pass


@habit
def an_average_left_out():
    return trainer_of(AveragesNothing), []


@habit
def a_data_set_given_on_the_instance():
    trainer = trainer_of()
    trainer.get_train_dataset = lambda: tiny_dataset(num_rows=8 * NUM_RANKS * 2, batch_size=BATCH_SIZE)
    return trainer, []


@habit
def more_tokens_than_the_model_had():
    model = without_dropout()
    model.resize_token_embeddings(104)
    return trainer_of(model=model), []


class SavesOnEveryRank(Trainer):
    def save_model(self, output_dir=None, _internal_call=False):
        self.model.save_pretrained(output_dir or self.args.output_dir)


@habit
def save_model_on_every_rank():
    output = OUTPUT / "saved"
    (output / "incomplete-notes").mkdir(parents=True, exist_ok=True)
    return trainer_of(SavesOnEveryRank, output=output, save_strategy="steps", save_steps=2, save_total_limit=2), []


class Scaled(nn.Module):
    """A classifier whose loss is multiplied by a buffer."""

    def __init__(self, scale, is_persistent):
        super().__init__()
        self.classifier = without_dropout()
        self.register_buffer("scale", mindspore.Tensor([scale], mindspore.float32), persistent=is_persistent)

    def forward(self, input_ids, labels):
        return {"loss": (self.classifier(input_ids=input_ids, labels=labels).loss * self.scale).sum()}


@habit
def a_buffer_that_is_saved_and_differs():
    return trainer_of(model=Scaled(1.0 + RANK, is_persistent=True)), []


@refused
def a_buffer_that_is_not_saved_and_differs():
    return trainer_of(model=Scaled(1.0 + RANK, is_persistent=False))


@refused
def never_initialised():
    model = without_dropout()
    empty = mindspore.Tensor(shape=(3, 32), dtype=mindspore.float32, init=mindspore.common.initializer.Normal())
    model.classifier.weight = nn.Parameter(empty)
    return trainer_of(model=model)


@refused
def new_on_one_rank():
    model = freeze_all_but_the_head(without_dropout())
    return acting(model=model, step_2=unfreeze("pooler" if RANK == 1 else "nothing"))


@refused
def new_too_late():
    class Late(TrainerCallback):
        def on_substep_end(self, args, state, control, **kwargs):
            unfreeze("pooler")(trainer)

    model = freeze_all_but_the_head(without_dropout())
    trainer = trainer_of(model=model, callbacks=[Late()], gradient_accumulation_steps=2)
    return trainer


@refused
def loss_weight_on_one_rank():
    trainer = trainer_of(WithLossWeight)
    trainer.log_variance = nn.Parameter(mindspore.Tensor([0.3], mindspore.float32))
    extra = [trainer.log_variance] if RANK == 1 else []
    trainer.optimizer = AdamW([*trainer.model.parameters(), *extra], lr=1e-2)
    return trainer


@refused
def planted_in_a_loss_weight():
    def plant(trainer):
        mindspore.ops.assign(trainer.log_variance, trainer.log_variance + 1e-3 * RANK)

    trainer = acting(trainer_type=WithLossWeight, step_5=plant)
    trainer.log_variance = nn.Parameter(mindspore.Tensor([0.3], mindspore.float32))
    trainer.optimizer = AdamW([*trainer.model.parameters(), trainer.log_variance], lr=1e-2)
    return trainer


@refused
def an_optimizer_of_a_callback():
    def step_the_head(trainer):
        head = tuple(trainer.model.classifier.parameters())
        batch = next(trainer.train_dataset.create_dict_iterator())
        value_and_grad(lambda: trainer.model(**batch).loss, head)()
        SGD(head, lr=1e-2).step()

    return acting(step_2=step_the_head)


def run_habit(name, build):
    trainer, others = build()
    trainer.train()
    tensors = [*trainer.model.parameters(), *others]
    parameters = np.concatenate([tensor.asnumpy().ravel() for tensor in tensors])
    np.savez(OUTPUT / f"{name}.rank{RANK}.npz", parameters=parameters)


if __name__ == "__main__":
    for name, build in HABITS.items():
        run_habit(name, build)
    if collectives.current().world_size > 1:
        said = {name: refusal_of(lambda build=build: build().train()) for name, build in REFUSALS.items()}
        (OUTPUT / f"said.rank{RANK}.json").write_text(json.dumps(said))
