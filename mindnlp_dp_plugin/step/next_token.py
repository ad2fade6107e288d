"""Does a model's loss leave out the first label of each row, as causal language models do?"""

from mindnlp_dp_plugin.compat import has_mindnlp05

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


def predicts_next_token(model) -> bool:
    """Whether a model, or the one that an adapter is put on, or the class it extends, shifts its labels by one."""
    if has_mindnlp05():
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    else:
        from mindnlp.transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    predictor = model.get_base_model() if hasattr(model, "get_base_model") else model  # an adapter is no model class
    shifting = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values(), *SHIFTS_LABELS} - TAKES_LABELS_IN_PLACE
    return any(kind.__name__ in shifting for kind in type(predictor).__mro__)
