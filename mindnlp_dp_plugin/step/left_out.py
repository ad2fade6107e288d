"""Which labels a model's loss leaves out, beside those that are -100."""

from mindnlp_dp_plugin.compat import has_mindnlp05

FIRST, MASKED = "first", "masked"  # the first of each row, as causal language models; those under the attention's mask
LEAVES_MASKED_OUT = {
    *("BioGptForTokenClassification", "ElectraForPreTraining", "FunnelForPreTraining", "MraForTokenClassification"),
    *("XLMRobertaXLForTokenClassification", "YosoForTokenClassification"),
}
# Causal language models by their name and their place in MindNLP's table, whose loss takes labels where they stand.
TAKES_LABELS_IN_PLACE = {
    *("BartForCausalLM", "BigBirdPegasusForCausalLM", "BlenderbotForCausalLM", "BlenderbotSmallForCausalLM"),
    *("CpmAntForCausalLM", "MBartForCausalLM", "MarianForCausalLM", "MvpForCausalLM"),
    *("PLBartForCausalLM", "PegasusForCausalLM", "ProphetNetForCausalLM", "Speech2Text2ForCausalLM"),
    *("TrOCRForCausalLM", "WhisperForCausalLM", "XLMProphetNetForCausalLM", "XLMWithLMHeadModel", "XLNetLMHeadModel"),
}
# Those that shift labels, and are not in the table.
SHIFTS_LABELS = {
    *("BaiChuanForCausalLM", "BlipTextLMHeadModel", "GPT2DoubleHeadsModel", "GPTPanguForCausalLM"),
    *("InternLMForCausalLM", "Kosmos2TextForCausalLM", "MSErnieForCausalLM", "MSMambaForCausalLM"),
    *("OpenAIGPTDoubleHeadsModel", "OpenELMForCausalLM"),
}


def left_out(model) -> str | None:
    """``FIRST`` or ``MASKED`` of a model, or of the one that an adapter is put on, or the class it extends; or None."""
    if has_mindnlp05():
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    else:
        from mindnlp.transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    shifting = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values(), *SHIFTS_LABELS} - TAKES_LABELS_IN_PLACE
    names = _names_of(model)
    return FIRST if names & shifting else MASKED if names & LEAVES_MASKED_OUT else None


def counts_rows(model) -> bool:
    """Whether a model's own loss is a mean over rows, however many labels each has: that of speech (CTC)."""
    return any(name.endswith("ForCTC") for name in _names_of(model))


def _names_of(model):
    """Those of its class, or of the one that an adapter is put on, and of what that extends."""
    predictor = model.get_base_model() if hasattr(model, "get_base_model") else model
    return {kind.__name__ for kind in type(predictor).__mro__}
