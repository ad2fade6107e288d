"""Weights that start wrong: not drawn, all the same, or zero."""

import functools

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindspore",
    bridges="weights of DistilBERT, ALBERT, XLM-R, ERNIE, OPT and forty others: initializer() returns a tensor whose "
    "numbers only init_data() draws, and assign_value, arithmetic and indexing take it for numbers",
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


@patch(
    module="mindnlp.core.nn.modules.batchnorm",
    bridges="BatchNorm1d, 2d and 3d: weights and biases are whatever stood in memory, mostly 0, so that nothing passes",
    obsolete_when="mindnlp's _NormBase.__init__ calls reset_parameters, as torch's does",
)
def weights_of_batch_norms(batchnorm):
    stock = batchnorm._NormBase.__init__

    @functools.wraps(stock)
    def __init__(self, *args, **kwargs):
        stock(self, *args, **kwargs)
        batchnorm.init.ones_(self.weight)  # with affine=False, too: it multiplies by them all the same
        batchnorm.init.zeros_(self.bias)

    batchnorm._NormBase.__init__ = __init__


def swapped_normal(folder):
    """Enter the patch of a folder that calls ``Normal(mean, sigma)``; MindSpore's is ``Normal(sigma, mean)``."""

    @patch(
        module=f"mindnlp.transformers.models.{folder}.modeling_{folder}",
        bridges=f"weights of {folder}: it calls Normal(0.0, std), which makes every weight the number std",
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
    module="mindnlp.transformers.models.funnel.modeling_funnel",
    bridges="Funnel: its _init_weights asks FunnelEmbeddings for a padding_idx, which its word_embeddings have",
    obsolete_when="mindnlp's FunnelPreTrainedModel asks word_embeddings",
)
def padding_of_funnel(modeling_funnel):
    modeling_funnel.FunnelEmbeddings.padding_idx = property(lambda self: self.word_embeddings.padding_idx)


@patch(
    module="mindnlp.transformers.modeling_utils",
    bridges="masked language models of RoBERTa, ALBERT, XLM-R and ten others: from_pretrained puts the head's bias in "
    "place, and tying then takes the one that the decoder was made with, which is 0",
    obsolete_when="mindnlp's from_pretrained copies into parameters, or its heads tie decoder.bias to bias",
)
def biases_of_heads(modeling_utils):
    stock = modeling_utils.PreTrainedModel.tie_weights

    def tie_weights(self):
        for module in self.modules():
            decoder = module._modules.get("decoder") if hasattr(module, "_tie_weights") else None
            own, of_decoder = getattr(module, "bias", None), getattr(decoder, "bias", None)
            if own is not None and of_decoder is not None and own.shape == of_decoder.shape:
                decoder.bias = own  # a decoder that was resized has another shape, and keeps its own
        stock(self)

    modeling_utils.PreTrainedModel.tie_weights = tie_weights
