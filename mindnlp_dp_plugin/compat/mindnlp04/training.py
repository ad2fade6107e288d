"""Gradients, clipping, optimizers, recomputation and saved adapters."""

import functools
import types
from contextlib import suppress
from importlib.metadata import version

from packaging.version import Version

from mindnlp_dp_plugin.compat.momentum import direction_of
from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindnlp.core.autograd.function",
    bridges="value_and_grad: 'Can not find top cell for backward', as it drives MindSpore's executor by private calls",
    mindspore=">=2.9",
    obsolete_when="mindnlp.core.autograd.value_and_grad goes through mindspore.value_and_grad",
)
def value_and_grad_through_public_api(function):
    import mindspore

    def value_and_grad(fn, params_or_argnums, has_aux=False, attach_grads=True):
        targets = params_or_argnums if isinstance(params_or_argnums, tuple) else tuple(params_or_argnums)
        if isinstance(targets[0], int):
            differentiate = mindspore.value_and_grad(fn, targets, None, has_aux)
        else:
            differentiate = mindspore.value_and_grad(fn, None, targets, has_aux)

        def run(*args, **kwargs):
            values, gradients = differentiate(*args, **kwargs)
            if not attach_grads:
                return values, gradients
            for parameter, gradient in zip(targets, gradients):
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
            return values

        return run

    function.value_and_grad = value_and_grad


@patch(
    module="mindnlp.core.nn.utils.clip_grad",
    bridges="clipping in one process (LoRA, CANINE, Funnel, Mamba...): it assigns to gradients in place, which "
    "MindSpore refuses where one is a view",
    mindspore=">=2.8",
    obsolete_when="MindSpore's Assign takes a view, or hands out gradients that are none",
)
def clipping_of_views(clip_grad):
    replaced = {"assign": lambda gradient, value: gradient.assign_value(value)}
    clip_grad.ops = types.SimpleNamespace(**{**vars(clip_grad.ops), **replaced})


@patch(
    module="mindnlp.core.optim.sgd",
    bridges="SGD: its momentum begins anew in each step, so that there is none, and parameters that are views stand "
    "still (weight_norm), both in silence",
    obsolete_when="mindnlp's SGD keeps its momentum, and steps a parameter that is a view",
)
def sgd_with_momentum(sgd):
    refuses_views = Version(version("mindspore")) >= Version("2.8")  # before, MindSpore leaves them as they are

    def step(self, grads=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    direction = direction_of(self.state[parameter], parameter, group)
                    write(parameter, parameter - direction * float(group["lr"]))

    def write(parameter, values):
        if refuses_views:
            with suppress(RuntimeError):
                return sgd.ops.assign(parameter, values)
        return parameter.assign_value(values)

    sgd.SGD.step = step


@patch(
    module="mindnlp.core.nn",
    bridges="clip_grad_value_: it clips the parameters that it is given, and not their gradients, in silence",
    obsolete_when="mindnlp's clip_grad_value_ clips the gradients of parameters",
)
def values_of_gradients(nn):
    import mindspore

    stock = nn.utils.clip_grad_value_

    def clip_grad_value_(parameters, clip_value, foreach=None):
        given = [parameters] if isinstance(parameters, mindspore.Tensor) else list(parameters)
        gradients = [each.grad if isinstance(each, nn.Parameter) else each for each in given]
        stock([gradient for gradient in gradients if gradient is not None], clip_value)

    nn.utils.clip_grad_value_ = nn.utils.clip_grad.clip_grad_value_ = clip_grad_value_


@patch(
    module="mindnlp.core.ops.optim",
    bridges="long training: an optimizer's numbers that change each step (powers of beta, learning rate) go as Python "
    "floats, for each of which MindSpore compiles the operator anew, and keeps it: 136 KB per parameter and step",
    obsolete_when="MindNLP's optimizers hand them over as tensors",
)
def numbers_of_optimizers(optim):
    import mindspore

    as_tensor = functools.lru_cache(maxsize=64)(lambda number: mindspore.Tensor(number, mindspore.float32))

    def with_tensors(stock, *indices):
        @functools.wraps(stock)
        def operator(*arguments):
            arguments = list(arguments)
            for index in indices:
                if isinstance(arguments[index], (int, float)):
                    arguments[index] = as_tensor(arguments[index])
            return stock(*arguments)

        return operator

    optim.raw_adam = with_tensors(optim.raw_adam, *range(3, 9))
    optim.raw_adam_amsgrad = with_tensors(optim.raw_adam_amsgrad, *range(4, 10))
    optim.raw_adadelta = with_tensors(optim.raw_adadelta, *range(3, 6))


@patch(
    module="mindnlp.core.nn",
    bridges="TrainingArguments(recompute=True): the Trainer calls recompute_enable, which no model has",
    obsolete_when="mindnlp's PreTrainedModel defines recompute_enable",
)
def recompute_of_the_trainer(nn):
    from mindnlp_dp_plugin.recompute import enable_recompute

    nn.Module.recompute_enable = lambda self, recompute_kwargs=None: enable_recompute(self)


@patch(
    module="mindnlp.transformers.modeling_utils",
    bridges="gradient_checkpointing_enable: BERT, RoBERTa, GPT-2 and others never look at what it sets, the rest hand "
    "a method to mindspore.recompute, which takes cells alone",
    obsolete_when="mindnlp's PreTrainedModel.gradient_checkpointing_enable brings its own checkpoint function",
)
def gradient_checkpointing(modeling_utils):
    from mindnlp_dp_plugin.recompute import disable_recompute, enable_recompute

    model = modeling_utils.PreTrainedModel
    model.gradient_checkpointing_enable = lambda self, gradient_checkpointing_kwargs=None: enable_recompute(self)
    model.gradient_checkpointing_disable = disable_recompute


@patch(
    module="mindnlp.peft.utils.save_and_load",
    bridges="PeftModel.save_pretrained: it writes str(dtype) into the file, and load_checkpoint no longer knows that",
    obsolete_when="mindnlp.peft saves adapters through mindspore.save_checkpoint",
)
def dtypes_of_saved_adapters(save_and_load):
    from mindspore.train.serialization import tensor_to_ms_type

    stock = save_and_load.get_data_list
    names = {str(dtype): name for name, dtype in tensor_to_ms_type.items()}

    def get_data_list(param_dict):
        return {key: [shape, names[dtype], values] for key, (shape, dtype, values) in stock(param_dict).items()}

    save_and_load.get_data_list = get_data_list
