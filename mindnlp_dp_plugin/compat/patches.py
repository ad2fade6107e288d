"""Every gap between MindNLP 0.4.1 and MindSpore 2.7 to 2.10, and the bridge over it."""

import functools
import sys
import types
from pathlib import Path

from mindnlp_dp_plugin.compat.patch import patch

STUB_MODULE = "mindspore.common._stub_tensor"


@patch(
    module="mindspore",
    bridges="import mindnlp: it imports mindspore.common._stub_tensor, which MindSpore 2.7 dropped",
    needed_from="2.7",
    obsolete_when="MindNLP no longer names StubTensor (mindnlp/patch.py, core/nn/modules/module.py)",
)
def stub_tensor_module(mindspore):
    stub = types.ModuleType(STUB_MODULE, "Stands where MindSpore had its stub tensors; no tensor is one any more.")
    stub.StubTensor = type("StubTensor", (), {"__module__": STUB_MODULE})
    stub._convert_stub = stub._convert_python_data = lambda value: value
    sys.modules[STUB_MODULE] = mindspore.common._stub_tensor = stub


@patch(
    module="mindnlp.core.ops.creation",
    bridges="mindnlp.core.ops.empty: it calls a private function of MindSpore whose signature changed",
    needed_from="2.7",
    obsolete_when="mindnlp.core.ops.empty calls the public mindspore.mint.empty",
)
def empty_through_constructor(creation):
    creation.has_empty = False


@patch(
    module="mindspore",
    bridges="weights of DistilBERT, ALBERT, XLM-R, ERNIE, OPT and forty others: initializer() returns a tensor whose "
    "numbers only init_data() draws, and assign_value, arithmetic and indexing take it for numbers",
    needed_from="2.7",
    obsolete_when="MindNLP's _init_weights call init_data(), or use mindnlp.core.nn.init throughout",
)
def drawn_initial_weights(mindspore):
    """Draw them in ``initializer()``. What imported the name before, as MindSpore's own layers, keeps the stock one."""
    stock = mindspore.common.initializer.initializer

    @functools.wraps(stock)
    def initializer(*args, **kwargs):
        tensor = stock(*args, **kwargs)
        return tensor.init_data() if tensor.has_init else tensor

    mindspore.common.initializer.initializer = initializer


def mean_before_sigma(module):
    stock = module.Normal
    module.Normal = lambda mean, sigma: stock(sigma=sigma, mean=mean)


@patch(
    module="mindnlp.transformers.models.lilt.modeling_lilt",
    bridges="weights of LiLT: it calls Normal(0.0, std), which is Normal(sigma, mean): all weights are std",
    needed_from="2.7",
    obsolete_when="mindnlp's modeling_lilt names sigma where it calls Normal",
)
def normal_weights_of_lilt(modeling_lilt):
    mean_before_sigma(modeling_lilt)


@patch(
    module="mindnlp.transformers.models.gptsan_japanese.modeling_gptsan_japanese",
    bridges="weights of GPTSAN: it calls Normal(0.0, std), which is Normal(sigma, mean): all weights are std",
    needed_from="2.7",
    obsolete_when="mindnlp's modeling_gptsan_japanese names sigma where it calls Normal",
)
def normal_weights_of_gptsan(modeling_gptsan_japanese):
    mean_before_sigma(modeling_gptsan_japanese)


@patch(
    module="mindnlp.core.nn.parameter",
    bridges="Parameter.grad: reading it raises AttributeError until a gradient was set",
    needed_from="2.7",
    obsolete_when="mindnlp.core.nn.Parameter defines grad",
)
def parameter_without_gradient(parameter):
    parameter.Parameter.grad = None


@patch(
    module="mindnlp.core.nn.parameter",
    bridges="XLM-R's masked language model, and InternLM: they call Parameter(data, name), as MindSpore's own takes it",
    needed_from="2.7",
    obsolete_when="mindnlp's modeling_xlm_roberta and modeling_internlm give their parameters no name",
)
def names_of_parameters(parameter):
    stock = parameter.Parameter.__init__

    def __init__(self, input_data=None, requires_grad=True):
        stock(self, input_data, bool(requires_grad))

    parameter.Parameter.__init__ = __init__


@patch(
    module="mindnlp.core.nn.parameter",
    bridges="LoRA with modules_to_save: a deep copy of a parameter shares its memory, and is trained with it",
    needed_from="2.7",
    obsolete_when="mindnlp.core.nn.Parameter.__deepcopy__ copies",
)
def deep_copies_of_parameters(parameter):
    stock = parameter.Parameter.__deepcopy__

    def deepcopy(self, memo):
        copied = stock(self, memo)
        copied.assign_value(self.copy())
        return copied

    parameter.Parameter.__deepcopy__ = deepcopy


@patch(
    module="mindnlp.transformers.modeling_utils",
    bridges="masked language models: the output's bias is left a view of itself, which no optimizer can write to",
    needed_from="2.7",
    obsolete_when="mindnlp's PreTrainedModel._tie_or_clone_weights assigns no slice to the bias",
)
def tied_output_bias(modeling_utils):
    stock = modeling_utils.PreTrainedModel._tie_or_clone_weights

    def tie_or_clone_weights(self, output_embeddings, input_embeddings):
        stock(self, output_embeddings, input_embeddings)
        bias = getattr(output_embeddings, "bias", None)
        if bias is not None:
            bias.assign_value(bias.copy())

    modeling_utils.PreTrainedModel._tie_or_clone_weights = tie_or_clone_weights


@patch(
    module="mindnlp.core.autograd.function",
    bridges="value_and_grad: 'Can not find top cell for backward', as it drives MindSpore's executor by private calls",
    needed_from="2.9",
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
    module="mindspore",
    bridges="Trainer.evaluate and predict: Tensor.repeat is 'not supported on this device' on CPU",
    needed_from="2.7",
    obsolete_when="MindSpore implements Tensor.repeat on CPU",
)
def repeat_on_cpu(mindspore):
    stock = mindspore.Tensor.repeat

    def repeat(self, *repeats):
        if mindspore.get_context("device_target") != "CPU":
            return stock(self, *repeats)
        counts = tuple(repeats[0]) if isinstance(repeats[0], (tuple, list)) else repeats
        return mindspore.ops.tile(self.reshape(1) if self.ndim == 0 else self, counts)

    mindspore.Tensor.repeat = repeat


@patch(
    module="mindspore",
    bridges="a readable log: MindNLP's attention masks call dtype_to_nptype, which warns at every call",
    needed_from="2.7",
    obsolete_when="MindNLP no longer calls mindspore.dtype_to_nptype",
)
def quiet_dtype_to_nptype(mindspore):
    mindspore.dtype_to_nptype = mindspore.common.dtype._dtype_to_nptype


@patch(
    module="mindspore",
    bridges="a readable log: MindNLP's initialisers call Tensor.data_sync, which does nothing any more but warn",
    needed_from="2.10",
    obsolete_when="MindNLP no longer calls Tensor.data_sync",
)
def quiet_data_sync(mindspore):
    mindspore.Tensor.data_sync = lambda self, wait=True: None


@patch(
    module="mindspore",
    bridges="evaluation of batches of different length: Tensor.new_full raises 'support Ascend only'",
    needed_from="2.7",
    obsolete_when="MindSpore implements Tensor.new_full on CPU",
)
def new_full_on_cpu(mindspore):
    stock = mindspore.Tensor.new_full

    def new_full(self, size, fill_value, *, dtype=None):
        if mindspore.get_context("device_target") != "CPU":
            return stock(self, size, fill_value, dtype=dtype)
        return mindspore.ops.full(size, fill_value, dtype=dtype or self.dtype)

    mindspore.Tensor.new_full = new_full


@patch(
    module="mindnlp.engine.trainer.base",
    bridges="include_inputs_for_metrics: evaluation calls Trainer._prepare_input, which is not there",
    needed_from="2.7",
    obsolete_when="mindnlp.engine.Trainer defines _prepare_input",
)
def inputs_for_metrics(trainer_base):
    trainer_base.Trainer._prepare_input = lambda self, data: data


@patch(
    module="mindnlp.core.nn.utils",
    bridges="training LoRA: clip_grad_norm_ assigns to gradients in place, which MindSpore refuses where one is a view",
    needed_from="2.8",
    obsolete_when="MindSpore's Assign takes a view, or hands out gradients that are none",
)
def clipping_of_views(utils):
    stock = utils.clip_grad_norm_

    def clip_grad_norm_(parameters, *args, **kwargs):
        parameters = list(parameters)
        for parameter in parameters:
            if parameter.grad is not None and not parameter.grad.is_contiguous():
                parameter.grad = parameter.grad.contiguous()
        return stock(parameters, *args, **kwargs)

    utils.clip_grad_norm_ = clip_grad_norm_


@patch(
    module="mindnlp.peft.utils.save_and_load",
    bridges="PeftModel.save_pretrained: it writes str(dtype) into the file, and load_checkpoint no longer knows that",
    needed_from="2.7",
    obsolete_when="mindnlp.peft saves adapters through mindspore.save_checkpoint",
)
def dtypes_of_saved_adapters(save_and_load):
    from mindspore.train.serialization import tensor_to_ms_type

    stock = save_and_load.get_data_list
    names = {str(dtype): name for name, dtype in tensor_to_ms_type.items()}

    def get_data_list(param_dict):
        return {key: [shape, names[dtype], values] for key, (shape, dtype, values) in stock(param_dict).items()}

    save_and_load.get_data_list = get_data_list


@patch(
    module="mindnlp.engine.trainer.base",
    bridges="resuming from an adapter: the Trainer looks for adapter_model.bin, mindnlp.peft writes adapter_model.ckpt",
    needed_from="2.7",
    obsolete_when="mindnlp.engine.Trainer loads what PeftModel.save_pretrained wrote",
)
def adapters_in_checkpoints(trainer_base):
    from mindnlp.peft import PeftModel
    from mindnlp.peft.utils import WEIGHTS_NAME

    trainer = trainer_base.Trainer
    stock_load, stock_load_best = trainer._load_from_checkpoint, trainer._load_best_model

    def load_adapters(model, folder):
        """Whether there were any."""
        if not (isinstance(model, PeftModel) and any(Path(folder).rglob(WEIGHTS_NAME))):
            return False
        for name in model.peft_config:
            model.load_adapter(str(folder if name == "default" else Path(folder, name)), name, is_trainable=True)
        return True

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        if not load_adapters(self.model if model is None else model, resume_from_checkpoint):
            stock_load(self, resume_from_checkpoint, model)

    def _load_best_model(self):
        if not load_adapters(self.model, self.state.best_model_checkpoint):
            stock_load_best(self)

    trainer._load_from_checkpoint, trainer._load_best_model = _load_from_checkpoint, _load_best_model


@patch(
    module="mindnlp.core.ops.optim",
    bridges="long training: an optimizer's numbers that change each step (powers of beta, learning rate) go as Python "
    "floats, for each of which MindSpore compiles the operator anew, and keeps it: 136 KB per parameter and step",
    needed_from="2.7",
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
    optim.raw_sgd = with_tensors(optim.raw_sgd, 2)
