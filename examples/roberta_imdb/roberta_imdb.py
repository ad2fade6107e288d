"""Fine-tune RoBERTa on film reviews, data-parallel.

    mindnlp-dp run --nproc 2 roberta_imdb.py                                            # small model, generated reviews
    mindnlp-dp run --nproc 2 roberta_imdb.py --model roberta-base --dataset imdb        # both from the hub
    mindnlp-dp run --nproc 2 roberta_imdb.py --model ./roberta --dataset ./reviews.csv  # columns text and label

On 2 x Ascend 910: see run_ascend.sh beside this file.
"""

import mindnlp_dp_plugin as dp  # isort: skip  (first of all: it lets MindNLP import, and joins the other ranks)

import argparse
from pathlib import Path

import datasets
import mindspore
from mindnlp.engine import Trainer, TrainingArguments
from mindnlp.transformers import AutoModelForSequenceClassification, AutoTokenizer
from mindspore.dataset import GeneratorDataset

from mindnlp_dp_plugin import metrics
from mindnlp_dp_plugin.recipes import generate_reviews, save_small_roberta

COLUMNS = ["input_ids", "attention_mask", "labels"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a hub name or a model folder (default: a small untrained RoBERTa)")
    parser.add_argument("--dataset", help="imdb, or a csv with the columns text and label (default: generated reviews)")
    parser.add_argument("--output-dir", type=Path, default=Path("roberta_imdb_output"))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16, help="rows per device and step")
    parser.add_argument("--learning-rate", type=float, help="default: 2e-5, or 1e-3 for the small untrained model")
    parser.add_argument("--max-length", type=int, default=128, help="tokens a review is cut to")
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def load_reviews(name):
    """A train and a test split with the columns text and label."""
    if name is None:
        return datasets.DatasetDict(
            train=datasets.Dataset.from_dict(generate_reviews(4000, seed=1)),
            test=datasets.Dataset.from_dict(generate_reviews(500, seed=2)),
        )
    if not name.endswith(".csv"):
        return datasets.load_dataset(name)
    rows = datasets.load_dataset("csv", data_files=name, split="train").class_encode_column("label")
    return rows.train_test_split(test_size=0.1, seed=0)


def prepare(args, folder):
    """On rank 0 only: download or make what is missing, and tokenise every review once."""
    reviews = load_reviews(args.dataset)
    if args.model is None:
        save_small_roberta(folder / "model", reviews["train"]["text"], num_labels=2, max_length=args.max_length)
    tokenizer = AutoTokenizer.from_pretrained(args.model or str(folder / "model"))
    # One length for all on Ascend, which compiles for each shape it meets; on CPU each batch is as long as its longest.
    padding = "max_length" if mindspore.get_context("device_target") == "Ascend" else False

    def tokenize(rows):
        return tokenizer(rows["text"], truncation=True, max_length=args.max_length, padding=padding)

    for split in ("train", "test"):
        tokens = reviews[split].map(tokenize, batched=True).rename_column("label", "labels").select_columns(COLUMNS)
        tokens.save_to_disk(str(folder / split))


class Rows:
    """A Hugging Face data set as MindSpore reads it: row number in, tuple of columns out."""

    def __init__(self, folder):
        self.rows = datasets.load_from_disk(str(folder)).with_format("numpy")

    def __getitem__(self, index):
        row = self.rows[int(index)]
        return tuple(row[column].astype("int32") for column in COLUMNS)

    def __len__(self):
        return len(self.rows)


def make_pipeline(folder, batch_size, pad_token_id, shuffle):
    """Whole data in batches. The plugin deals the training rows out to the ranks; this code need not know of them."""
    pipeline = GeneratorDataset(Rows(folder), COLUMNS, shuffle=shuffle)
    return pipeline.padded_batch(
        batch_size, pad_info={"input_ids": (None, pad_token_id), "attention_mask": (None, 0), "labels": ([], 0)}
    )


def main():
    args = parse_arguments()
    prepared = args.output_dir / "prepared"
    if dp.is_main_process():
        prepare(args, prepared)
    dp.barrier()  # the others wait here until it is all on disk

    model_name = args.model or str(prepared / "model")
    tokenizer = AutoTokenizer.from_pretrained(model_name)
    model = AutoModelForSequenceClassification.from_pretrained(model_name, num_labels=2)
    train_data = make_pipeline(prepared / "train", args.batch_size, tokenizer.pad_token_id, shuffle=True)
    test_data = make_pipeline(prepared / "test", args.batch_size, tokenizer.pad_token_id, shuffle=False)

    accuracy, f1 = metrics.load("accuracy"), metrics.load("f1")

    def compute_metrics(prediction):
        classes = prediction.predictions.argmax(axis=-1)
        scores = accuracy.compute(predictions=classes, references=prediction.label_ids)
        return scores | f1.compute(predictions=classes, references=prediction.label_ids)

    training_args = TrainingArguments(
        output_dir=str(args.output_dir / "checkpoints"),
        num_train_epochs=args.epochs,
        learning_rate=args.learning_rate or (2e-5 if args.model else 1e-3),
        evaluation_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=20,
        seed=args.seed,
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=train_data,
        eval_dataset=test_data,
        tokenizer=tokenizer,
        compute_metrics=compute_metrics,
    )
    trainer.train()
    scores = trainer.evaluate()
    trainer.save_model(str(args.output_dir / "model"))  # writes on rank 0 only
    dp.print_rank_0(f"\naccuracy {scores['eval_accuracy']:.3f}, F1 {scores['eval_f1']:.3f} on the test reviews")
    dp.print_rank_0(f"model: {args.output_dir / 'model'}    checkpoints: {args.output_dir / 'checkpoints'}")


if __name__ == "__main__":
    main()
