"""Errors of single model families."""

import functools

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindnlp.transformers.models.nezha.nezha",
    bridges="NEZHA: its table of relative positions is all zeros",
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
    obsolete_when="mindnlp's shift_tokens_right of PLBart clones input_ids",
)
def labels_of_plbart(modeling_plbart):
    from mindnlp.transformers.models.mbart import modeling_mbart

    modeling_plbart.shift_tokens_right = modeling_mbart.shift_tokens_right


@patch(
    module="mindnlp.transformers.models.xlm_roberta.modeling_xlm_roberta",
    bridges="question answering and multiple choice with XLM-R: they call Tensor.size, which is a number",
    obsolete_when="mindnlp's modeling_xlm_roberta reads Tensor.shape",
)
def shapes_in_xlm_roberta(modeling_xlm_roberta):
    from mindnlp.transformers.models.roberta import modeling_roberta

    for head in ("QuestionAnswering", "MultipleChoice"):
        same = getattr(modeling_roberta, f"RobertaFor{head}")
        getattr(modeling_xlm_roberta, f"XLMRobertaFor{head}").forward = same.forward


@patch(
    module="mindnlp.transformers.models.mobilebert.modeling_mobilebert",
    bridges="question answering and multiple choice with MobileBERT call Tensor.size, which is a number; and classes "
    "in int64 are trained as several labels at once, in silence",
    obsolete_when="mindnlp's modeling_mobilebert reads Tensor.shape, and asks for int64",
)
def shapes_in_mobilebert(modeling_mobilebert):
    from mindnlp.transformers.models.bert import modeling_bert

    for head in ("QuestionAnswering", "MultipleChoice", "SequenceClassification"):
        model = getattr(modeling_mobilebert, f"MobileBertFor{head}")
        model.forward = getattr(modeling_bert, f"BertFor{head}").forward
        model.bert = property(lambda self: self.mobilebert)


@patch(
    module="mindnlp.transformers.models.led.modeling_led",
    bridges="LED: the chunks of its window hold other rows than torch's, in silence",
    obsolete_when="mindnlp.core.ops.as_strided counts strides in memory",
)
def chunks_of_led(modeling_led):
    attention = modeling_led.LEDEncoderSelfAttention
    stock = attention._chunk
    attention._chunk = staticmethod(lambda hidden_states, *args: stock(hidden_states.contiguous(), *args))


@patch(
    module="mindnlp.transformers.models.longformer.modeling_longformer",
    bridges="Longformer in float16: it takes each number for four bytes, and divides by zero",
    obsolete_when="mindnlp's modeling_longformer reads Tensor.stride()",
)
def chunks_of_longformer(modeling_longformer):
    from mindnlp.transformers.models.led import modeling_led

    for name in ("_chunk", "_sliding_chunks_matmul_attn_probs_value"):
        same = vars(modeling_led.LEDEncoderSelfAttention)[name]
        setattr(modeling_longformer.LongformerSelfAttention, name, same)


@patch(
    module="mindnlp.transformers.models.gpt2.modeling_gpt2",
    bridges="GPT-2 with a mask for each token, as packed rows have: it takes any mask for one of columns",
    obsolete_when="mindnlp's GPT2Model takes a mask of four dimensions, as its Llama does",
)
def masks_of_gpt2(modeling_gpt2):
    stock = modeling_gpt2.GPT2Model.forward

    class MaskOfEachToken:
        """What GPT-2 asks of a mask of columns before it takes 1 minus it, answered by one that has its final shape."""

        def __init__(self, added):
            self._added = added

        def view(self, *shape):
            return self

        def __getitem__(self, axes):
            return self

        def to(self, dtype):
            return (self._added == 0).to(dtype)

    @functools.wraps(stock)
    def forward(self, *args, attention_mask=None, **kwargs):
        if attention_mask is not None and attention_mask.ndim == 4:
            attention_mask = MaskOfEachToken(attention_mask)
        # Without a mask stock may have got it by position.
        named = {} if attention_mask is None else {"attention_mask": attention_mask}
        return stock(self, *args, **named, **kwargs)

    modeling_gpt2.GPT2Model.forward = forward
