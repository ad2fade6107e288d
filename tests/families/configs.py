"""A configuration of a few thousand weights for any model, without dropout: made from the names of its arguments."""

import inspect
import re

NUM_LABELS = 3
PAD, BOS, EOS, MARK = 0, 1, 2, 3  # MARK is the mask, question or separator token, where a model wants one
FIRST_WORD, VOCABULARY = 8, 96

SIZES = {
    VOCABULARY: "vocab_size src_vocab_size tgt_vocab_size padded_vocab_size entity_vocab_size num_hash_buckets",
    64: "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length seq_length context_length "
    "max_encoder_position_embeddings max_decoder_position_embeddings max_source_positions max_target_positions "
    "max_context_length rope_max_length model_max_length position_bias_max_distance intermediate_size ffn_dim d_ff "
    "encoder_ffn_dim decoder_ffn_dim hidden_dim n_inner dff dim_ff d_inner feed_forward_size ffn_hidden_size "
    "inner_hidden_size moe_intermediate_size shared_expert_intermediate_size d_ext prompt_mid_dim "
    "original_max_position_embeddings",
    32: "hidden_size d_model n_embd dim embed_dim emb_dim embedding_size word_embed_proj_dim input_embedding_size "
    "output_embedding_size model_dim d_spout entity_emb_size intra_bottleneck_size pronunciation_embed_dim "
    "shape_embed_dim d_latents tpu_short_seq_length",
    16: "attention_window block_size kv_lora_rank q_lora_rank num_random_blocks sliding_window num_landmarks "
    "segment_means_seq_len window_size lsh_attn_chunk_length local_attn_chunk_length",
    8: "head_dim d_kv dim_head d_head attention_head_size rotary_dim kv_channels qk_rope_head_dim v_head_dim "
    "qk_nope_head_dim max_relative_position relative_attention_num_buckets prompt_length",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads "
    "num_encoder_attention_heads num_decoder_attention_heads num_self_attention_heads num_cross_attention_heads "
    "num_experts num_local_experts n_routed_experts",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers "
    "num_decoder_layers num_transformer_layers num_key_value_heads multi_query_group_num num_experts_per_tok "
    "num_feedforward_networks",
}
TOKENS = {
    PAD: "pad_token_id pad_index",
    BOS: "bos_token_id bos_index decoder_start_token_id",
    EOS: "eos_token_id eos_index",
    MARK: "mask_token_id mask_index question_token_id",
}
BY_NAME = {name: value for table in (SIZES, TOKENS) for value, names in table.items() for name in names.split()}
RANDOM = re.compile(r"drop|pdrop|noise")
OF_FOLDER = {  # what else a family needs
    "bros": {"hidden_size": 64},  # a quarter for boxes, of 8 numbers in 2 waves
    "chatglm": {"gmask_token_id": MARK},
    "chatglm2": {"original_rope": True},
    "chatglm3": {"original_rope": True},
    "chatglm4": {"original_rope": True},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0}, "ffn_config": {"ffn_hidden_size": 64}},
    "deepseek_v2": {"topk_method": "greedy", "n_shared_experts": 1, "first_k_dense_replace": 1},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "lilt": {"hidden_size": 48},  # divided by 6 for boxes, and by 4 for their layers
    "mobilebert": {"embedding_size": 16},  # less than hidden_size
    "mpnet": {"relative_attention_num_buckets": 32},  # MPNet counts buckets on its own
    "reformer": {"axial_pos_shape": [4, 4], "axial_pos_embds_dim": [16, 16], "attn_layers": ["local", "lsh"]},
    "xmod": {"default_language": "en_XX"},
}


def tiny_config(folder, config_class, head):
    """A configuration for that head, of random weights small enough that building and training takes a moment."""
    names = inspect.signature(config_class.__init__).parameters
    values = {name: BY_NAME[name] for name in names if name in BY_NAME}
    values |= {
        name: 0.0
        for name, parameter in names.items()
        if RANDOM.search(name) and type(parameter.default) in (int, float)
    }
    values |= {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}
    values["classifier_dropout"] = 0.0  # decoders take 0.1 where it is missing
    values["num_labels"] = {"regression": 1, "question_answering": 2}.get(head, NUM_LABELS)  # a start and an end
    if head in PROBLEM_TYPES:
        values["problem_type"] = PROBLEM_TYPES[head]
    if head == "causal_lm":
        values["is_decoder"] = True
    return config_class(**{**values, **OF_FOLDER.get(folder, {})})


PROBLEM_TYPES = {
    "sequence_classification": "single_label_classification",
    "regression": "regression",
    "multi_label": "multi_label_classification",
}
