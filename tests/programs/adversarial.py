"""Adversarial training as its users write it: ``training_step`` calls ``super().training_step`` more than once."""

import mindspore
from mindnlp.engine import Trainer

EPSILON = 0.5


def embeddings_of(model):
    return [(n, p) for n, p in model.named_parameters() if "word_embeddings" in n and p.grad is not None]


class FGMTrainer(Trainer):
    """Fast gradient method: one step up along the gradient of the embeddings, then down along both gradients."""

    def training_step(self, model, inputs):
        loss = super().training_step(model, dict(inputs))
        backup = {}
        for name, parameter in embeddings_of(model):
            backup[name] = parameter.copy()
            norm = mindspore.ops.norm(parameter.grad)
            mindspore.ops.assign(parameter, parameter + EPSILON * parameter.grad / (norm + 1e-12))
        super().training_step(model, dict(inputs))
        for name, parameter in model.named_parameters():
            if name in backup:
                mindspore.ops.assign(parameter, backup[name])
        return loss


class PGDTrainer(Trainer):
    """Projected gradient descent: two smaller steps up; the gradient at the end of them counts beside the first."""

    num_attacks = 2

    def training_step(self, model, inputs):
        loss = super().training_step(model, dict(inputs))
        values = {name: parameter.copy() for name, parameter in embeddings_of(model)}
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        for attack in range(self.num_attacks):
            for _, parameter in embeddings_of(model):
                step = EPSILON / self.num_attacks * parameter.grad / (mindspore.ops.norm(parameter.grad) + 1e-12)
                mindspore.ops.assign(parameter, parameter + step)
            is_last = attack == self.num_attacks - 1
            for name, parameter in model.named_parameters():
                parameter.grad = gradients[name] if is_last else None
            super().training_step(model, dict(inputs))
        for name, parameter in model.named_parameters():
            if name in values:
                mindspore.ops.assign(parameter, values[name])
        return loss
