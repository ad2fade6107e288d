"""Tiny models of MindNLP 0.5, without dropout, and rows for them."""

import numpy as np
import torch
import transformers

VOCABULARY = 100
ENCODER = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


class Rows(torch.utils.data.Dataset):
    """Random rows.

    ``labels``: one a row (``class``, ``float``), or one for each of the
    ``tokens``, of which the last are padding, as ``tags`` in a column of that name.
    """

    def __init__(self, number, labels="class", seed=0):
        chance = np.random.default_rng(seed)
        self.words = chance.integers(5, VOCABULARY, (number, 12))
        self.lengths = chance.integers(6, 13, number)
        self.labels = chance.integers(0, 2, number)
        self.kind = labels

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        words, is_padding = self.words[index], np.arange(12) >= self.lengths[index]
        labels = np.where(is_padding, -100, words) if self.kind in ("tokens", "tags") else self.labels[index]
        if self.kind == "float":
            labels = labels.astype(np.float32)
        return {
            "input_ids": torch.tensor(words),
            "attention_mask": torch.tensor(1 - is_padding.astype(np.int64)),
            "tags" if self.kind == "tags" else "labels": torch.tensor(labels),
        }


def trainer_of(output, model, rows=None, kind=transformers.Trainer, callbacks=(), more=None, **options):
    """A Trainer without reports and bars; ``more`` is what else it gets."""
    usual = dict(per_device_train_batch_size=4, report_to=[], disable_tqdm=True)
    arguments = transformers.TrainingArguments(str(output), **{**usual, **options})
    return kind(model, arguments, train_dataset=rows, callbacks=list(callbacks), **(more or {}))


def bert(**options):
    return transformers.BertForSequenceClassification(transformers.BertConfig(**ENCODER, **{**NO_DROPOUT, **options}))


def pretraining():
    return transformers.BertForPreTraining(transformers.BertConfig(**ENCODER, **NO_DROPOUT))


def roberta():
    config = transformers.RobertaConfig(**ENCODER, **NO_DROPOUT, max_position_embeddings=20, pad_token_id=1)
    return transformers.RobertaForSequenceClassification(config)


def distilbert():
    small = dict(vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=2, hidden_dim=64)
    none = dict(dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0)
    return transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig(**small, **none))


def masked_bert():
    """Its output layer is tied to its embeddings."""
    return transformers.BertForMaskedLM(transformers.BertConfig(**ENCODER, **NO_DROPOUT))


def gpt2():
    none = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=2, n_positions=20, **none)
    )


def t5():
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, dropout_rate=0.0
    )
    config.decoder_start_token_id = 0
    return transformers.T5ForConditionalGeneration(config)


def bart():
    small = dict(encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2)
    none = dict(dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)
    size = dict(d_model=32, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=20)
    config = transformers.BartConfig(vocab_size=VOCABULARY, **small, **size, **none)
    return transformers.BartForConditionalGeneration(config)


def with_lora(model):
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=4, lora_dropout=0.0, target_modules=["q_proj", "v_proj"]))


def llama():
    return with_lora(transformers.LlamaForCausalLM(transformers.LlamaConfig(**ENCODER, num_key_value_heads=1)))


def mixtral():
    """Its experts are balanced by a loss of their own, which counts as much as that of words."""
    balance = dict(num_local_experts=4, output_router_logits=True, router_aux_loss_coef=1.0)
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**ENCODER, num_key_value_heads=1, **balance))


def llama_regression():
    """It takes the number of labels, and computes a mean all the same."""
    config = transformers.LlamaConfig(**ENCODER, num_key_value_heads=1, num_labels=1, pad_token_id=0)
    config.problem_type = "regression"
    return transformers.LlamaForSequenceClassification(config)


def llama_classifier():
    return transformers.LlamaForSequenceClassification(
        transformers.LlamaConfig(**ENCODER, num_key_value_heads=1, pad_token_id=0)
    )


def token_classifier():
    """Its loss is a mean over labels, though it takes their number."""
    return transformers.LlamaForTokenClassification(
        transformers.LlamaConfig(**ENCODER, num_key_value_heads=1, num_labels=VOCABULARY, classifier_dropout=0.0)
    )


def qwen2():
    return with_lora(transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**ENCODER, num_key_value_heads=1)))


def frozen():
    model = bert()
    model.bert.embeddings.requires_grad_(False)
    return model


def unused():
    model = bert()
    model.never_used = torch.nn.Linear(3, 3)
    return model
