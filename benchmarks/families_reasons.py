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
REASONS_IN_CHINESE = {
    "chatglm": "分词器给出的掩码是二维的，与它四维的注意力分数不符",
    "chatglm2": "它的 `_init_weights` 什么也不做：由配置建立时，权重是内存中残留的内容；`from_pretrained` 会填入权重",
    "chatglm3": "就是 ChatGLM2 的模型",
    "chatglm4": "与 ChatGLM2 相同",
    "jetmoe": "它用 `Tensor.div(rounding_mode='trunc')` 把词元分配给专家，MindSpore 的这个 kernel 在 CPU 上失败",
    "longt5": "它在每一层调用 `ops.ones(size, dtype)`，而第二个参数是大小",
    "openelm": "它的词向量表的行数等于模型的宽度：其他词元查不到",
    "tapas/question_answering": "它的答案是表格的单元格，有自己的标签",
    "tinybert": "它的构造函数除了配置还要求标签，或者把张量当作参数赋值",
    "xlm_prophetnet": "它调用 `new_zeros(rows, columns)`，而 MindSpore 只接受一个形状",
}
