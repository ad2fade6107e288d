"""What was found out about the families of MindNLP that ``benchmarks/families.py`` does not see pass."""

NOT_OF_TEXT = {
    "images": "blip blip_2 bridgetower cogvlm florence2 fuyu git instructblip kosmos2 layoutlmv2 layoutlmv3 llava "
    "llava_next lxmert mllama perceiver pix2struct qwen2_vl udop vilt vipllava visual_bert",
    "sound": "clvp hubert musicgen musicgen_melody pop2piano seamless_m4t seamless_m4t_v2 sew sew_d speech_to_text "
    "unispeech unispeech_sat wav2vec2 wav2vec2_bert wav2vec2_conformer wavlm whisper",
}
NOT_TINY = {
    "baichuan": "refuses every `hidden_size` but those of its 7B and 13B models",
    "cpmbee": "takes an encoding of its own of text (spans, contexts, samples), not words and a mask",
}

# Where all heads of a family fail for one reason, the family alone is named.
REASONS = {
    "chatglm": "its mask of two dimensions, as tokenizers make it, does not fit its attention scores of four",
    "chatglm2": "its `_init_weights` does nothing: from a configuration, weights are what memory held; "
    "`from_pretrained` fills them",
    "chatglm3": "the models of ChatGLM2",
    "chatglm4": "as ChatGLM2",
    "jetmoe": "MindSpore's kernel for `Tensor.div(rounding_mode='trunc')`, which routes words to experts, fails on CPU",
    "longt5": "it calls `ops.ones(size, dtype)`, whose second argument is a size, in each of its layers",
    "openelm": "its table of embeddings has as many rows as the model is wide: other words cannot be looked up",
    "tapas/question_answering": "its answers are cells of tables, with labels of their own",
    "tinybert": "its constructors take labels beside the configuration, or assign tensors as parameters",
    "xlm_prophetnet": "it calls `new_zeros(rows, columns)`, where MindSpore takes one shape",
}
