"""What MindNLP's parameters lack beside MindSpore's own, and memory that they must not share."""

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindnlp.core.nn.parameter",
    bridges="Parameter.grad: reading it raises AttributeError until a gradient was set",
    fault_of="MindNLP",
    obsolete_when="mindnlp.core.nn.Parameter defines grad",
)
def parameter_without_gradient(parameter):
    parameter.Parameter.grad = None


@patch(
    module="mindnlp.core.nn.parameter",
    bridges="XLM-R's masked language model, and InternLM: they call Parameter(data, name), as MindSpore's own takes it",
    fault_of="MindNLP",
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
    fault_of="MindNLP",
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
    bridges="LoRA with modules_to_save: a deep copy of a parameter shares its memory, and is trained with it",
    fault_of="MindNLP",
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
    fault_of="MindNLP",
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
    fault_of="MindNLP",
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
