"""A loop of your own: mixed precision, accumulation, tracking, evaluation, and going on from a saved state.

    mindnlp-dp run --nproc 2 own_loop.py
    mindnlp-dp run --nproc 2 own_loop.py --data ChnSentiCorp_htl_all.csv      # columns review and label
    mindnlp-dp run --nproc 2 own_loop.py --resume                             # goes on in the middle of an epoch

What Accelerate's `prepare`, `autocast`, `accumulate`, `log`, `gather_for_metrics` and `save_state` do, for MindNLP.
"""

import mindnlp_dp_plugin as dp  # isort: skip  (first: makes MindNLP importable and joins the other ranks)

import argparse
import csv
from contextlib import nullcontext
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn, no_grad, value_and_grad
from mindnlp.core.optim import AdamW
from mindnlp.transformers import BertConfig, BertForSequenceClassification
from mindspore.dataset import GeneratorDataset
from tensorboardX import SummaryWriter

LENGTH, VOCABULARY, ACCUMULATION = 32, 4096, 2


def read(path):
    """Reviews and labels; without a file, made-up ones."""
    if path is None:
        good, bad = ["房间干净", "服务热情", "早餐丰富", "位置方便"], ["房间陈旧", "服务冷淡", "隔音很差", "价格太高"]
        chance = np.random.default_rng(0)
        labels = chance.integers(2, size=480).tolist()
        return [("，".join(chance.choice(good if label else bad, 3)), label) for label in labels]
    with Path(path).open(encoding="utf-8-sig") as file:
        return [(row["review"], int(row["label"])) for row in csv.DictReader(file) if row["review"]]


def rows_of(reviews, batch_size, shuffle=False):
    """One number for each character, the same in every process."""

    def tokens(text):
        characters = [2 + ord(character) % (VOCABULARY - 2) for character in text[:LENGTH]]
        return np.array(characters + [0] * (LENGTH - len(characters)), np.int32)

    rows = [(tokens(text), np.int32(label)) for text, label in reviews]
    return GeneratorDataset(rows, ["input_ids", "labels"], shuffle=shuffle).batch(batch_size)


def evaluate(model, held):
    model.set_train(False)
    right = total = 0
    with no_grad():
        for batch in held.create_dict_iterator():
            logits = model(input_ids=batch["input_ids"], attention_mask=batch["input_ids"] > 0).logits
            predictions, labels = dp.gather_for_metrics((logits.argmax(-1), batch["labels"]))
            right, total = right + (predictions == labels).sum(), total + len(labels)
    model.set_train()
    return right / total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--output-dir", default="own_loop_output")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    mindspore.set_seed(42)

    reviews = read(options.data)
    np.random.default_rng(1).shuffle(reviews)
    cut = len(reviews) // 10
    model = BertForSequenceClassification(
        BertConfig(VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128)
    )
    optimizer = AdamW(model.parameters(), lr=1e-3)
    model, optimizer, rows, held = dp.prepare(
        model, optimizer, rows_of(reviews[cut:], 16, shuffle=True), rows_of(reviews[:cut], 16), mixed_precision="fp16"
    )
    state_folder = Path(options.output_dir, "state")
    first_epoch = dp.load_state(state_folder).epoch if options.resume and state_folder.exists() else 0
    writer = SummaryWriter(options.output_dir) if dp.is_main_process() else None

    def loss_of(batch):
        batch = {**batch, "attention_mask": batch["input_ids"] > 0}
        return model(**batch).loss / ACCUMULATION

    gradients_of = value_and_grad(loss_of, tuple(model.parameters()))
    model.set_train()
    step = 0
    for epoch in range(first_epoch, options.epochs):
        for number, batch in enumerate(rows.create_dict_iterator(), start=1):
            is_last = number % ACCUMULATION == 0
            with nullcontext() if is_last else dp.no_sync():
                loss = gradients_of(batch)
            if not is_last:
                continue
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if writer:
                writer.add_scalar("loss", loss.item() * ACCUMULATION, step)
            if step % 50 == 0 or dp.should_stop():
                dp.save_state(state_folder)
        optimizer.zero_grad()  # of a batch that is left over
        dp.print_rank_0(f"epoch {epoch + 1}: accuracy {evaluate(model, held):.3f}")
    dp.save_state(state_folder)


if __name__ == "__main__":
    main()
