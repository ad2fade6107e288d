"""MindNLP's own ``training_step`` for Hugging Face's Trainer."""

import functools

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="transformers.utils.generic",
    bridges="the Trainer refuses a model that is a plain nn.Module: transformers looks for the name of torch's modules",
    obsolete_when="transformers' infer_framework knows mindtorch's modules",
)
def framework_of_plain_modules(generic):
    stock = generic.infer_framework

    def infer_framework(model_class):
        is_plain = any(base.__module__.startswith("mindtorch") for base in model_class.__mro__)
        return "pt" if is_plain else stock(model_class)

    generic.infer_framework = infer_framework


@patch(
    module="mindnlp",
    bridges="unfreezing, and a second train(): the function of gradients is that of the first model and parameters",
    obsolete_when="mindnlp.transformers.trainer.training_step makes grad_fn anew for other parameters",
)
def gradients_of_the_present_parameters(_):
    from transformers import Trainer

    stock = Trainer.training_step

    @functools.wraps(stock)
    def training_step(self, model, *args, **kwargs):
        present = id(model), [id(parameter) for parameter in model.parameters() if parameter.requires_grad]
        if vars(self).get("_parameters_of_grad_fn") != present:
            vars(self).pop("grad_fn", None)
            self._parameters_of_grad_fn = present
        return stock(self, model, *args, **kwargs)

    Trainer.training_step = training_step
