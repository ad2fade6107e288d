"""What the oracle trains: each scenario changes one thing about the first."""

from dataclasses import dataclass


@dataclass
class Scenario:
    model: str = "bert"
    optimizer: str = "adamw"
    num_steps: int = 10
    accumulation: int = 1
    num_batches: int = 10
    change: str = ""
    config: tuple = ()
    label_smoothing: float = 0.0

    @property
    def is_weighted(self):
        """Whether the reference is one process with all rows of an optimizer step in one batch."""
        return "average_over" in dict(self.config)

    @property
    def runs_alone(self):
        """Whether one process can take the ranks' micro-steps one after the other and step at the same rows."""
        return self.is_weighted and self.num_batches % self.accumulation == 0 and self.change != "float16"


SCENARIOS = {
    "bert_adamw": Scenario(num_steps=20),
    "bert_sgd": Scenario(optimizer="sgd", num_steps=20),
    "roberta_adamw": Scenario(model="roberta", num_steps=20),
    "roberta_sgd": Scenario(model="roberta", optimizer="sgd", num_steps=20),
    # 10 batches an epoch: the third step of an accumulation of 4 spans two epochs.
    "accumulation_with_tail": Scenario(accumulation=4),
    # 3 batches an epoch: stock steps at the end of each epoch, and whenever 4 micro-steps have come together.
    "epoch_shorter_than_accumulation": Scenario(accumulation=4, num_batches=3, num_steps=8),
    "frozen_embeddings": Scenario(change="frozen_embeddings"),
    "unused_parameter": Scenario(change="unused_parameter"),
    "used_by_one_rank": Scenario(change="used_by_one_rank"),
    "used_by_one_rank_accumulated": Scenario(change="used_by_one_rank", accumulation=4),
    "tied_weights": Scenario(change="tied_weights"),
    "bucket_per_parameter": Scenario(config=(("bucket_cap_mb", 0),), num_steps=4),
    "many_buckets": Scenario(config=(("bucket_cap_mb", 0.01),)),
    "averaged_accumulation": Scenario(
        optimizer="sgd", accumulation=4, num_batches=8, num_steps=4, config=(("average_over", "micro_steps"),)
    ),
    # Steps of 3, 1, 2, 2, 1 and 3 micro-steps.
    "averaged_in_short_epochs": Scenario(
        optimizer="sgd", accumulation=4, num_batches=3, num_steps=6, config=(("average_over", "micro_steps"),)
    ),
    # The last batch of an epoch has 3 rows instead of 8.
    "averaged_over_samples": Scenario(
        optimizer="sgd",
        accumulation=2,
        num_batches=4,
        num_steps=4,
        change="uneven_batches",
        config=(("average_over", "samples"),),
    ),
    # Where -100 marks what does not count, ranks count differently, and one of rank 0's batches may not count at all.
    "label_smoothing": Scenario(model="token_classifier", num_steps=4, label_smoothing=0.1),
    "label_smoothing_over_tokens": Scenario(
        model="token_classifier",
        optimizer="sgd",
        accumulation=2,
        num_batches=4,
        num_steps=4,
        change="batch_without_tokens",
        label_smoothing=0.1,
        config=(("average_over", "tokens"),),
    ),
    "masked_words_over_tokens": Scenario(
        model="masked_lm",
        num_batches=3,
        num_steps=4,
        change="batch_without_tokens",
        config=(("average_over", "tokens"),),
    ),
    "grouped_by_length": Scenario(change="grouped_by_length", num_batches=8, num_steps=16),
    "lora": Scenario(change="lora", num_steps=4),
    "float16": Scenario(change="float16", optimizer="sgd", num_steps=4),
    "float16_accumulated": Scenario(
        change="float16",
        optimizer="sgd",
        accumulation=2,
        num_batches=4,
        num_steps=4,
        config=(("average_over", "micro_steps"),),
    ),
    "half_precision_weights": Scenario(change="half_precision_weights", optimizer="sgd", num_steps=4),
}
