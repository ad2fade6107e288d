"""Fine-tune a small RoBERTa on generated reviews by Hugging Face's Trainer, over MindNLP 0.5.

    mindnlp-dp run --nproc 2 roberta_reviews.py                        # two ranks of this machine
    msrun --worker_num=2 --local_worker_num=2 roberta_reviews.py       # or by another launcher

It needs MindNLP 0.5 (docs/guide/mindnlp-05.md), no network, and a minute on a laptop's CPU.
"""

import mindnlp_dp_plugin as dp  # isort: skip  (first: joins the other ranks, and mends MindNLP)
import mindnlp  # isort: skip  # noqa: F401  (lets transformers run on MindSpore)

from datasets import Dataset
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

from mindnlp_dp_plugin.recipes import generate_reviews

NEW_REVIEWS = ["The plot was clever and the music was moving.", "The acting was dull and the ending was messy."]


def word_tokenizer(texts):
    """One token for each word, so that nothing has to be downloaded."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=special))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = dict(bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>", cls_token="<s>")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, sep_token="</s>", **names)


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    set_seed(42)
    train, test = Dataset.from_dict(generate_reviews(2000, seed=0)), Dataset.from_dict(generate_reviews(501, seed=1))
    tokenizer = word_tokenizer(train["text"])
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=130,
        pad_token_id=tokenizer.pad_token_id,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )

    def tokenized(rows):
        return rows.map(lambda row: tokenizer(row["text"]), remove_columns="text")

    trainer = Trainer(
        model=RobertaForSequenceClassification(config),
        args=TrainingArguments(
            output_dir="roberta_reviews_output",
            per_device_train_batch_size=16,
            per_device_eval_batch_size=32,
            num_train_epochs=3,
            learning_rate=1e-3,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=1,
            logging_steps=25,
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=tokenized(train),
        eval_dataset=tokenized(test),
        data_collator=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=16),
        compute_metrics=accuracy,
    )
    trainer.train()
    scores = trainer.evaluate()
    dp.print_rank_0(f"accuracy {scores['eval_accuracy']:.3f} on {len(test)} test rows")

    new = Dataset.from_dict({"text": NEW_REVIEWS})
    for text, logits in zip(NEW_REVIEWS, trainer.predict(tokenized(new)).predictions):
        dp.print_rank_0(f"{'good' if logits[1] > logits[0] else 'bad '}  {text}")


if __name__ == "__main__":
    main()
