"""Models of ``families_speed`` and ``long_texts``, by names that MindNLP and transformers share. Imports neither."""

BATCH_SIZE, NUM_TOKENS = 8, 128
NUM_WORDS = 30000
WIDE = dict(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)
MINI = dict(
    hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, max_position_embeddings=2048,
    vocab_size=8000,
)  # fmt: skip
LLAMAS = dict(WIDE, intermediate_size=1408, num_key_value_heads=8)

DEBERTA = dict(
    WIDE, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=64, norm_rel_ebd="layer_norm"
)
T5 = dict(d_model=512, num_layers=4, num_decoder_layers=4, num_heads=8, d_ff=2048, decoder_start_token_id=0)
BART = dict(
    d_model=512, encoder_layers=4, decoder_layers=4, encoder_attention_heads=8, decoder_attention_heads=8,
    encoder_ffn_dim=2048, decoder_ffn_dim=2048,
)  # fmt: skip

# The beginning of its classes' names, the end, and what changes in its configuration.
FAMILIES = {
    "BERT": ("Bert", "ForSequenceClassification", WIDE),
    "RoBERTa": ("Roberta", "ForSequenceClassification", WIDE),
    "DistilBERT": ("DistilBert", "ForSequenceClassification", dict(dim=512, n_layers=4, n_heads=8, hidden_dim=2048)),
    "ELECTRA": ("Electra", "ForSequenceClassification", dict(WIDE, embedding_size=512)),
    "DeBERTa-v2": ("DebertaV2", "ForSequenceClassification", DEBERTA),
    "GPT-2": ("GPT2", "LMHeadModel", dict(n_embd=512, n_layer=4, n_head=8)),
    "Llama": ("Llama", "ForCausalLM", LLAMAS),
    "Qwen2": ("Qwen2", "ForCausalLM", LLAMAS),
    "T5": ("T5", "ForConditionalGeneration", T5),
    "BART": ("Bart", "ForConditionalGeneration", BART),
}
MINIS = {
    "BERT-mini": ("Bert", "ForSequenceClassification", MINI),
    "RoBERTa-mini": ("Roberta", "ForSequenceClassification", dict(MINI, max_position_embeddings=2050)),
    "GPT-2-mini": ("GPT2", "LMHeadModel", dict(n_embd=256, n_layer=4, n_head=4, n_positions=2048, vocab_size=8000)),
    "Llama-mini": ("Llama", "ForCausalLM", dict(MINI, num_key_value_heads=4)),
    "Qwen2-mini": ("Qwen2", "ForCausalLM", dict(MINI, num_key_value_heads=4)),
    "T5-mini": ("T5", "ForConditionalGeneration", dict(T5, d_model=256, num_heads=4, d_ff=1024, vocab_size=8000)),
}
SIZES = {"BERT-base": ("Bert", "ForSequenceClassification", dict(vocab_size=30522)), **FAMILIES, **MINIS}


def make(transformers, family):
    """The model of a family from one of the two libraries, with weights that are drawn."""
    begin, end, changes = SIZES[family]
    config = getattr(transformers, f"{begin}Config")(**{"vocab_size": NUM_WORDS, **changes})
    if config.pad_token_id is None:
        config.pad_token_id = 0
    return getattr(transformers, f"{begin}{end}")(config)


def columns(family, chance, num_tokens):
    """A row of random tokens, as arrays by name: labels are a class, or the tokens themselves."""
    tokens = chance.integers(4, SIZES[family][2].get("vocab_size", NUM_WORDS), num_tokens)
    classes = SIZES[family][1] == "ForSequenceClassification"
    return {"input_ids": tokens, "labels": chance.integers(2) if classes else tokens}
