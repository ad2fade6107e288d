"""Every gap between MindNLP 0.4.1 and MindSpore 2.7 to 2.10, and the bridge over it."""

import functools
import sys
import types

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


def swapped_normal(folder):
    """Enter the patch of a folder that calls ``Normal(mean, sigma)``; MindSpore's is ``Normal(sigma, mean)``."""

    @patch(
        module=f"mindnlp.transformers.models.{folder}.modeling_{folder}",
        bridges=f"weights of {folder}: it calls Normal(0.0, std), which makes every weight the number std",
        needed_from="2.7",
        obsolete_when=f"mindnlp's modeling_{folder} names sigma where it calls Normal",
    )
    def mean_before_sigma(modeling):
        stock = modeling.Normal
        modeling.Normal = lambda mean, sigma: stock(sigma=sigma, mean=mean)


for folder in ("falcon", "gptsan_japanese", "lilt"):
    swapped_normal(folder)


def after_init_weights(model, set_weights):
    """Let a model's class call ``set_weights(self, module)`` after its own ``_init_weights``."""
    stock = model._init_weights

    def _init_weights(self, module):
        stock(self, module)
        set_weights(self, module)

    model._init_weights = _init_weights


@patch(
    module="mindnlp.transformers.models.convbert.modeling_convbert",
    bridges="ConvBERT: its LayerNorms start with weights of 0 and biases of 1, so that nothing in front of them trains",
    needed_from="2.7",
    obsolete_when="mindnlp's ConvBertPreTrainedModel gives LayerNorms weights of 1",
)
def weights_of_convbert(modeling_convbert):
    nn = modeling_convbert.nn

    def set_weights(self, module):
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)

    after_init_weights(modeling_convbert.ConvBertPreTrainedModel, set_weights)


@patch(
    module="mindnlp.transformers.models.gptsan_japanese.modeling_gptsan_japanese",
    bridges="GPTSAN: its LayerNorms, and Linears with a bias, start with weights of 0",
    needed_from="2.7",
    obsolete_when="mindnlp's GPTSanJapanesePreTrainedModel sets the bias to zeros where it sets the weight",
)
def weights_of_gptsan(modeling_gptsan_japanese):
    nn = modeling_gptsan_japanese.nn

    def set_weights(self, module):
        factor = self.config.initializer_factor
        if isinstance(module, nn.LayerNorm):
            nn.init.constant_(module.weight, factor)
        elif isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.normal_(module.weight, mean=0.0, std=factor * self.config.d_model**-0.5)
            nn.init.zeros_(module.bias)

    after_init_weights(modeling_gptsan_japanese.GPTSanJapanesePreTrainedModel, set_weights)


@patch(
    module="mindnlp.core.nn",
    bridges="TrainingArguments(recompute=True): the Trainer calls recompute_enable, which no model has",
    needed_from="2.7",
    obsolete_when="mindnlp's PreTrainedModel defines recompute_enable",
)
def recompute_of_the_trainer(nn):
    from mindnlp_dp_plugin.recompute import enable_recompute

    nn.Module.recompute_enable = lambda self, recompute_kwargs=None: enable_recompute(self)


@patch(
    module="mindnlp.transformers.modeling_utils",
    bridges="gradient_checkpointing_enable: BERT, RoBERTa, GPT-2 and others never look at what it sets, the rest hand "
    "a method to mindspore.recompute, which takes cells alone",
    needed_from="2.7",
    obsolete_when="mindnlp's PreTrainedModel.gradient_checkpointing_enable brings its own checkpoint function",
)
def gradient_checkpointing(modeling_utils):
    from mindnlp_dp_plugin.recompute import disable_recompute, enable_recompute

    model = modeling_utils.PreTrainedModel
    model.gradient_checkpointing_enable = lambda self, gradient_checkpointing_kwargs=None: enable_recompute(self)
    model.gradient_checkpointing_disable = disable_recompute


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
    bridges="OpenELM and MiniCPM3: their _init_weights call set_data and initialize, as MindSpore's own Parameter has",
    needed_from="2.7",
    obsolete_when="mindnlp's modeling_openelm and modeling_minicpm3 use mindnlp.core.nn.init",
)
def setters_of_parameters(parameter):
    from mindspore.common import initializer

    def initialize(self, init):
        self.assign_value(initializer.initializer(init, self.shape, self.dtype))

    parameter.Parameter.set_data = parameter.Parameter.assign_value
    parameter.Parameter.initialize = initialize


@patch(
    module="mindnlp.transformers.models.funnel.modeling_funnel",
    bridges="Funnel: its _init_weights asks FunnelEmbeddings for a padding_idx, which its word_embeddings have",
    needed_from="2.7",
    obsolete_when="mindnlp's FunnelPreTrainedModel asks word_embeddings",
)
def padding_of_funnel(modeling_funnel):
    modeling_funnel.FunnelEmbeddings.padding_idx = property(lambda self: self.word_embeddings.padding_idx)


@patch(
    module="mindnlp.core.ops",
    bridges="clipping gradients of convolutions in one process (CANINE, Mamba, SqueezeBERT...): on CPU, mint.norm of "
    "a tensor of three dimensions or more returns None",
    needed_from="2.7",
    obsolete_when="MindSpore's mint.norm takes any number of dimensions on CPU",
)
def norm_of_many_dimensions(ops):
    stock = ops.norm

    def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
        if dim is None and not keepdim and input.ndim > 2:
            input = input.reshape(-1)
        return stock(input, p, dim, keepdim, dtype=dtype)

    ops.norm = norm


@patch(
    module="mindnlp.core.ops",
    bridges="masked and causal language models of XLM-R, and NEZHA, OpenELM, TinyBERT and XLM-ProphetNet: they call "
    "functions of MindSpore's ops that mindnlp.core.ops has not",
    needed_from="2.7",
    obsolete_when="mindnlp.core.ops has them",
)
def missing_operators(ops):
    import mindspore

    for name in ("dense", "gather_elements", "gelu", "nll_loss", "relu", "t"):
        setattr(ops, name, getattr(mindspore.ops, name))


@patch(
    module="mindnlp.core.ops",
    bridges="BROS: on CPU, arange refuses a float beside a whole number, and makes whole numbers of both",
    needed_from="2.7",
    obsolete_when="mindnlp.core.ops.arange takes a mixture, as torch.arange",
)
def arange_of_floats(ops):
    import mindspore

    stock = ops.arange

    def arange(start=0, end=None, step=1, *, dtype=None):
        if any(isinstance(number, float) for number in (start, end, step)):
            start, end, step = float(start), None if end is None else float(end), float(step)
            dtype = dtype or mindspore.float32
        return stock(start, end, step, dtype=dtype)

    ops.arange = arange


@patch(
    module="mindspore",
    bridges="Pegasus and NLLB-MoE: Tensor.clone has no kernel on CPU",
    needed_from="2.7",
    obsolete_when="MindSpore implements Tensor.clone on CPU",
)
def clone_on_cpu(mindspore):
    stock = mindspore.Tensor.clone

    def clone(self):
        return self.copy() if mindspore.get_context("device_target") == "CPU" else stock(self)

    mindspore.Tensor.clone = clone


@patch(
    module="mindspore",
    bridges="causal masks of BART, mBART, OPT, Falcon and others: on MindSpore 2.7, Tensor.masked_fill of floats by a "
    "whole number has no kernel on CPU",
    needed_from="2.7",
    mended_in="2.10",
    obsolete_when="MindSpore 2.7 is not supported any more",
)
def whole_numbers_in_masked_fill(mindspore):
    stock = mindspore.Tensor.masked_fill

    def masked_fill(self, mask, value):
        return stock(self, mask, float(value) if isinstance(value, int) and self.is_floating_point() else value)

    mindspore.Tensor.masked_fill = masked_fill


@patch(
    module="mindspore",
    bridges="PLBart, DeepSeek-V2 and MobileBERT: masked_fill_, scatter_add_, normal_, fill_... have no kernel on CPU",
    needed_from="2.7",
    obsolete_when="MindSpore implements them on CPU",
)
def in_place_operators_on_cpu(mindspore):
    def in_place(stock, operator):
        @functools.wraps(stock)
        def method(self, *args, **kwargs):
            if mindspore.get_context("device_target") != "CPU":
                return stock(self, *args, **kwargs)
            return self.assign_value(operator(self, *args, **kwargs))

        return method

    def scatter_add(input, dim, index, src):
        return mindspore.ops.tensor_scatter_elements(input, index, src, dim, "add")

    def normal(input, mean=0, std=1, *, generator=None):
        initial = mindspore.common.initializer
        return initial.initializer(initial.Normal(std, mean), input.shape, input.dtype)

    tensor = mindspore.Tensor
    replaced = {
        "fill": mindspore.ops.full_like,
        "masked_fill": tensor.masked_fill,
        "normal": normal,
        "scatter_add": scatter_add,
        "zero": mindspore.ops.zeros_like,
    }
    for name, operator in replaced.items():
        if hasattr(tensor, f"{name}_"):
            setattr(tensor, f"{name}_", in_place(getattr(tensor, f"{name}_"), operator))


@patch(
    module="mindnlp.transformers.models.nezha.nezha",
    bridges="NEZHA: its table of relative positions is all zeros",
    needed_from="2.7",
    obsolete_when="mindnlp's NezhaRelativePositionsEncoding fills embeddings_table",
)
def relative_positions_of_nezha(nezha):
    import numpy as np

    stock = nezha.NezhaRelativePositionsEncoding.__init__

    def __init__(self, length, depth, max_relative_position=127):
        stock(self, length, depth, max_relative_position)
        places = np.arange(length)
        distances = np.clip(places - places[:, None], -max_relative_position, max_relative_position)
        angles = (distances + max_relative_position)[:, :, None] * 10000.0 ** (-np.arange(0, depth, 2) / depth)
        waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, length, depth)
        self.positions_encoding.assign_value(nezha.Tensor(waves.astype(np.float32)))

    nezha.NezhaRelativePositionsEncoding.__init__ = __init__


@patch(
    module="mindnlp.transformers.models.bloom.modeling_bloom",
    bridges="BLOOM with padded rows: it writes each row's mask into one memory, so that rows get each other's",
    needed_from="2.7",
    obsolete_when="mindnlp's modeling_bloom clones causal_mask before it writes to it, as its other models do",
)
def masks_of_bloom(modeling_bloom):
    from mindnlp.transformers.models.gpt_neox import modeling_gpt_neox

    name = "_prepare_4d_causal_attention_mask_with_cache_position"
    setattr(modeling_bloom, name, getattr(modeling_gpt_neox, name))


def unfinished_models(module, class_name):
    """Enter the patch of models that neither call ``post_init`` nor know their input embeddings."""

    @patch(
        module=module,
        bridges=f"masked language models of {class_name}: weights start untied, and from_pretrained cannot tie them",
        needed_from="2.7",
        obsolete_when=f"mindnlp's {class_name} inherits get_input_embeddings, and its models call post_init",
    )
    def finished_models(modeling):
        base = getattr(modeling, class_name)
        for name in ("get_input_embeddings", "set_input_embeddings", "post_init"):
            if name in vars(base):
                delattr(base, name)
        for name, model in vars(modeling).items():
            if isinstance(model, type) and issubclass(model, base) and "For" in name:
                model.__init__ = ending_with_post_init(model.__init__)


def ending_with_post_init(stock):
    @functools.wraps(stock)
    def __init__(self, *args, **kwargs):
        stock(self, *args, **kwargs)
        self.post_init()

    return __init__


unfinished_models("mindnlp.transformers.models.nezha.nezha", "NezhaPreTrainedModel")
unfinished_models("mindnlp.transformers.models.mobilebert.modeling_mobilebert", "MobileBertPreTrainedModel")


@patch(
    module="mindnlp.transformers.models.plbart.modeling_plbart",
    bridges="PLBart: shifting words to the right for the decoder, it shifts the very labels, or the encoder's words",
    needed_from="2.7",
    obsolete_when="mindnlp's shift_tokens_right of PLBart clones input_ids",
)
def labels_of_plbart(modeling_plbart):
    from mindnlp.transformers.models.mbart import modeling_mbart

    modeling_plbart.shift_tokens_right = modeling_mbart.shift_tokens_right


@patch(
    module="mindnlp.transformers.models.xlm_roberta.modeling_xlm_roberta",
    bridges="question answering and multiple choice with XLM-R: they call Tensor.size, which is a number",
    needed_from="2.7",
    obsolete_when="mindnlp's modeling_xlm_roberta reads Tensor.shape",
)
def shapes_in_xlm_roberta(modeling_xlm_roberta):
    from mindnlp.transformers.models.roberta import modeling_roberta

    for head in ("QuestionAnswering", "MultipleChoice"):
        same = getattr(modeling_roberta, f"RobertaFor{head}")
        getattr(modeling_xlm_roberta, f"XLMRobertaFor{head}").forward = same.forward


@patch(
    module="mindnlp.transformers.models.mobilebert.modeling_mobilebert",
    bridges="question answering and multiple choice with MobileBERT: they call Tensor.size, which is a number",
    needed_from="2.7",
    obsolete_when="mindnlp's modeling_mobilebert reads Tensor.shape",
)
def shapes_in_mobilebert(modeling_mobilebert):
    from mindnlp.transformers.models.bert import modeling_bert

    for head in ("QuestionAnswering", "MultipleChoice"):
        model = getattr(modeling_mobilebert, f"MobileBertFor{head}")
        model.forward = getattr(modeling_bert, f"BertFor{head}").forward
        model.bert = property(lambda self: self.mobilebert)


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
    module="mindnlp.core.nn.utils.clip_grad",
    bridges="clipping in one process (LoRA, CANINE, Funnel, Mamba...): it assigns to gradients in place, which "
    "MindSpore refuses where one is a view",
    needed_from="2.8",
    obsolete_when="MindSpore's Assign takes a view, or hands out gradients that are none",
)
def clipping_of_views(clip_grad):
    replaced = {"assign": lambda gradient, value: gradient.assign_value(value)}
    clip_grad.ops = types.SimpleNamespace(**{**vars(clip_grad.ops), **replaced})


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
