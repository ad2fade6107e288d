"""What MindNLP's parameters lack beside MindSpore's own, and memory that they must not share."""

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindnlp.core.nn.parameter",
    bridges="Parameter.grad: reading it raises AttributeError until a gradient was set",
    obsolete_when="mindnlp.core.nn.Parameter defines grad",
)
def parameter_without_gradient(parameter):
    parameter.Parameter.grad = None


@patch(
    module="mindnlp.core.nn.parameter",
    bridges="XLM-R's masked language model, and InternLM: they call Parameter(data, name), as MindSpore's own takes it",
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
    obsolete_when="mindnlp's modeling_openelm and modeling_minicpm3 use mindnlp.core.nn.init",
)
def setters_of_parameters(parameter):
    from mindspore.common import initializer

    def initialize(self, init):
        self.assign_value(initializer.initializer(init, self.shape, self.dtype))

    parameter.Parameter.set_data = parameter.Parameter.assign_value
    parameter.Parameter.initialize = initialize


@patch(
    module="mindnlp.core.nn.parameter",
    bridges="parameters made of a slice or a view, or frozen when made and unfrozen later: their gradients are 0",
    obsolete_when="MindSpore differentiates by parameters that are views, or whose param_info said requires_grad=False",
)
def gradients_of_views(parameter):
    import mindspore

    stock = parameter.Parameter.__init__

    def __init__(self, input_data=None, *args, **kwargs):
        if isinstance(input_data, mindspore.Tensor) and not input_data.has_init:
            with mindspore._no_grad():  # a forward that raised leaves MindSpore recording
                input_data = mindspore.ops.stop_gradient(input_data)  # the same memory, by itself
        stock(self, input_data, *args, **kwargs)
        self.param_info.requires_grad = True

    parameter.Parameter.__init__ = __init__


@patch(
    module="mindnlp.core.nn.utils.weight_norm",
    bridges="weight_norm: what it computes is made a parameter, so that weight_g and weight_v get no gradient",
    obsolete_when="mindnlp's WeightNorm.compute_weight returns a tensor",
)
def gradients_through_weight_norm(weight_norm):
    stock = weight_norm.WeightNorm.remove

    def compute_weight(self, module):
        return weight_norm._weight_norm(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    def remove(self, module):
        stock(self, module)
        setattr(module, self.name, weight_norm.Parameter(vars(module).pop(self.name)))

    weight_norm.WeightNorm.compute_weight, weight_norm.WeightNorm.remove = compute_weight, remove


@patch(
    module="mindnlp.core.nn.utils.parametrize",
    bridges="parametrizations (weight_norm of Wav2Vec2 and HuBERT): what they compute is made a parameter, so that "
    "theirs get no gradient",
    obsolete_when="mindnlp's parametrize._inject_property returns a tensor",
)
def gradients_through_parametrizations(parametrize):
    stock = parametrize._inject_property

    def inject_property(module, tensor_name):
        stock(module, tensor_name)
        kept = vars(type(module))[tensor_name]

        def computed(self):
            if parametrize._cache_enabled:
                return kept.fget(self)
            parametrization = self.parametrizations[tensor_name]
            tensor = parametrization()
            tensor.requires_grad = any(parameter.requires_grad for parameter in parametrization.parameters())
            return tensor

        setattr(type(module), tensor_name, property(computed, kept.fset))

    parametrize._inject_property = inject_property


@patch(
    module="mindnlp.core.nn.modules.module",
    bridges="load_state_dict of another model's state_dict(): both share memory, and a frozen teacher is trained along",
    obsolete_when="mindnlp's Module._load_from_state_dict copies",
)
def loaded_values_are_copies(module):
    stock = module.Module._load_from_state_dict

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *args):
        stock(self, state_dict, prefix, local_metadata, *args)
        if local_metadata.get("assign_to_params_buffers", False):
            return
        for name, held in {**self._parameters, **self._buffers}.items():
            if held is not None and prefix + name in state_dict:
                held.assign_value(held.copy())

    module.Module._load_from_state_dict = _load_from_state_dict


@patch(
    module="mindnlp.core.nn.parameter",
    bridges="LoRA with modules_to_save: a deep copy of a parameter shares its memory, and is trained with it",
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
    obsolete_when="mindnlp's PreTrainedModel._tie_or_clone_weights assigns no slice to the bias",
)
def tied_output_bias(modeling_utils):
    stock = modeling_utils.PreTrainedModel._tie_or_clone_weights

    def tie_or_clone_weights(self, output_embeddings, input_embeddings):
        bias = getattr(output_embeddings, "bias", None)
        shape = None if bias is None else bias.shape
        stock(self, output_embeddings, input_embeddings)
        if bias is None:
            return
        if bias.shape == shape:
            bias.assign_value(bias.copy())
        else:
            _make_anew(bias, self)

    modeling_utils.PreTrainedModel._tie_or_clone_weights = tie_or_clone_weights


@patch(
    module="mindnlp.transformers.modeling_utils",
    bridges="resize_token_embeddings: MindSpore still expects a gradient of the old shape, and training fails",
    obsolete_when="mindnlp's PreTrainedModel._get_resized_embeddings gives the layer a new parameter",
)
def resized_embeddings(modeling_utils):
    stock = modeling_utils.PreTrainedModel._get_resized_embeddings

    def get_resized_embeddings(self, old_embeddings, *args, **kwargs):
        shape = old_embeddings.weight.shape
        resized = stock(self, old_embeddings, *args, **kwargs)
        if resized.weight.shape != shape:
            _make_anew(resized.weight, self)
        return resized

    modeling_utils.PreTrainedModel._get_resized_embeddings = get_resized_embeddings


def _make_anew(parameter, model):
    """Put a copy in the place of a parameter wherever the model has it."""
    copied = type(parameter)(parameter.copy(), parameter.requires_grad)
    for module in model.modules():
        for name, held in module._parameters.items():
            if held is parameter:
                module._parameters[name] = copied
