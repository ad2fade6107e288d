"""Fine-tune RoBERTa or BERT on film reviews, data-parallel, and predict with the trained model.

    mindnlp-dp run --nproc 2 roberta_imdb.py                         # a small RoBERTa, generated reviews
    mindnlp-dp run --nproc 2 roberta_imdb.py --model small-bert
    mindnlp-dp run --nproc 2 roberta_imdb.py --model roberta-base --dataset imdb --learning-rate 2e-5    # from the hub
    mindnlp-dp run --nproc 2 roberta_imdb.py --dataset ./reviews     # your train.csv and test.csv: text,label

The first line needs no network and takes a minute on a laptop's CPU. For two Ascend cards, see run_ascend.sh.
"""

import mindnlp_dp_plugin as dp  # isort: skip  (first: makes MindNLP importable and joins the other ranks)

import argparse

import mindspore
import numpy as np
from mindnlp.dataset import load_dataset
from mindnlp.engine import Trainer, TrainingArguments
from mindnlp.transformers import AutoModelForSequenceClassification, AutoTokenizer
from mindspore.dataset import GeneratorDataset, transforms

from mindnlp_dp_plugin.recipes import save_offline_inputs

NEW_REVIEWS = ["The plot was clever and the music was moving.", "The acting was dull and the ending was messy."]


def batches(rows, tokenizer, shuffle=False):
    """A MindSpore pipeline from texts to batches. It holds all rows: the plugin gives each rank its share."""

    def tokenize(text):
        tokens = tokenizer(str(text), truncation=True, max_length=128)
        return np.array(tokens["input_ids"], np.int32), np.array(tokens["attention_mask"], np.int32)

    if shuffle:
        rows = rows.shuffle(rows.get_dataset_size())
    rows = rows.map(tokenize, "text", ["input_ids", "attention_mask"])
    rows = rows.map(transforms.TypeCast(mindspore.int32), "label", "labels")
    padding = dp.DynamicPadding({"input_ids": tokenizer.pad_token_id, "attention_mask": 0}, pad_to_multiple_of=16)
    return rows.batch(16, per_batch_map=padding, input_columns=padding.columns)


def accuracy(prediction):
    return {"accuracy": float(np.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="small-roberta", help="small-roberta, small-bert, a folder or a hub name")
    parser.add_argument("--dataset", default="generated", help="generated, a folder or a hub name")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--output-dir", default="roberta_imdb_output")
    options = parser.parse_args()
    mindspore.set_seed(42)  # the small model's first weights, the same in each run; the Trainer's own seed comes later

    with dp.main_process_first():  # rank 0 writes or downloads the files, then the other ranks read them
        offline = save_offline_inputs(f"{options.output_dir}/offline")
        model_name = offline.get(options.model, options.model)
        reviews = load_dataset(offline.get(options.dataset, options.dataset), split=["train", "test"])
        tokenizer = AutoTokenizer.from_pretrained(model_name)
        model = AutoModelForSequenceClassification.from_pretrained(model_name, num_labels=2)

    arguments = TrainingArguments(
        output_dir=options.output_dir,
        per_device_train_batch_size=16,
        num_train_epochs=options.epochs,
        learning_rate=options.learning_rate,
        evaluation_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=25,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=batches(reviews["train"], tokenizer, shuffle=True),
        eval_dataset=batches(reviews["test"], tokenizer),
        compute_metrics=accuracy,
    )
    trainer.train()
    scores = trainer.evaluate()
    dp.print_rank_0(f"accuracy {scores['eval_accuracy']:.3f} on {reviews['test'].get_dataset_size()} test rows")
    trainer.save_model(f"{options.output_dir}/model")

    rows = GeneratorDataset([(text, np.int32(0)) for text in NEW_REVIEWS], ["text", "label"], shuffle=False)
    for text, logits in zip(NEW_REVIEWS, trainer.predict(batches(rows, tokenizer)).predictions):
        dp.print_rank_0(f"{'good' if logits[1] > logits[0] else 'bad '}  {text}")


if __name__ == "__main__":
    main()
