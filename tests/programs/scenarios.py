"""What the oracle trains: each scenario changes one thing about the first."""

from dataclasses import dataclass


@dataclass
class Scenario:
    model: str = "bert"
    optimizer: str = "adamw"
    num_steps: int = 20
    accumulation: int = 1
    num_batches: int = 10
    change: str = ""
    config: tuple = ()


SCENARIOS = {
    "bert_adamw": Scenario(),
    "bert_sgd": Scenario(optimizer="sgd"),
    "roberta_adamw": Scenario(model="roberta"),
    "roberta_sgd": Scenario(model="roberta", optimizer="sgd"),
    # 10 batches an epoch: the third step of an accumulation of 4 spans two epochs.
    "accumulation_with_tail": Scenario(accumulation=4),
    # 3 batches an epoch: stock steps at the end of each epoch, and whenever 4 micro-steps have come together.
    "epoch_shorter_than_accumulation": Scenario(accumulation=4, num_batches=3, num_steps=8),
    "frozen_embeddings": Scenario(change="frozen_embeddings"),
    "unused_parameter": Scenario(change="unused_parameter"),
    "used_by_one_rank": Scenario(change="used_by_one_rank"),
    "used_by_one_rank_accumulated": Scenario(change="used_by_one_rank", accumulation=4),
    "tied_weights": Scenario(change="tied_weights"),
    "lora": Scenario(change="lora", num_steps=8),
    "bucket_per_parameter": Scenario(config=(("bucket_cap_mb", 0),), num_steps=4),
    "many_buckets": Scenario(config=(("bucket_cap_mb", 0.01),)),
}
