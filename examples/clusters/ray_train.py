"""Fine-tune a small RoBERTa on workers of Ray, and go on after a failure.

    pip install 'mindnlp-dp-plugin[ray,mindnlp04]'
    python ray_train.py                                     # two workers on this machine
    python ray_train.py --address auto --storage /shared    # on the cluster of this node, which `ray start` made

Each worker of Ray becomes a rank. Checkpoints go to the storage, which all nodes reach; give the same --name again, and
training goes on from the newest.
"""

import argparse
import os

import ray
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

from mindnlp_dp_plugin.ray import MindNLPTrainer


def train(config, callbacks=()):
    """What `mindnlp-dp run` could run as well."""
    import mindnlp_dp_plugin as dp  # isort: skip  (first: makes MindNLP importable)

    import mindspore
    import numpy as np
    from mindnlp.dataset import load_dataset
    from mindnlp.engine import Trainer, TrainingArguments
    from mindnlp.transformers import AutoModelForSequenceClassification, AutoTokenizer
    from mindspore.dataset import transforms

    from mindnlp_dp_plugin.recipes import save_offline_inputs

    mindspore.set_seed(42)  # the small model's first weights, the same in each run
    with dp.main_process_first():  # on several nodes, save_offline_inputs in a folder that all share
        files = save_offline_inputs(f"{config['output_dir']}/offline", num_reviews=400)
        reviews = load_dataset(files["generated"], split=["train", "test"])
        tokenizer = AutoTokenizer.from_pretrained(files["small-roberta"])
        model = AutoModelForSequenceClassification.from_pretrained(files["small-roberta"], num_labels=2)

    def tokenize(text):
        tokens = tokenizer(str(text))
        return np.array(tokens["input_ids"], np.int32), np.array(tokens["attention_mask"], np.int32)

    def batches(rows):
        rows = rows.map(tokenize, "text", ["input_ids", "attention_mask"])
        rows = rows.map(transforms.TypeCast(mindspore.int32), "label", "labels")
        padding = dp.DynamicPadding({"input_ids": tokenizer.pad_token_id, "attention_mask": 0})
        return rows.batch(8, per_batch_map=padding, input_columns=padding.columns)

    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=f"{config['output_dir']}/trainer",
            num_train_epochs=config.get("epochs", 2),
            learning_rate=config.get("learning_rate", 1e-3),
            logging_steps=5,
            evaluation_strategy="steps",
            save_strategy="steps",
            eval_steps=10,  # before the checkpoint of the same step, whose metrics then hold the scores
            save_steps=10,
            save_total_limit=2,
            disable_tqdm=True,
        ),
        train_dataset=batches(reviews["train"].shuffle(1000)),
        eval_dataset=batches(reviews["test"]),
        compute_metrics=lambda scored: {"accuracy": float(np.mean(scored.predictions.argmax(-1) == scored.label_ids))},
        callbacks=list(callbacks),
    )
    trainer.train()
    trainer.save_model(f"{config['output_dir']}/model")
    dp.barrier()  # rank 0 writes it


def train_on_ray(config):
    """The same, with reports to Ray."""
    from mindnlp_dp_plugin.ray import RayReportCallback

    train(config, [RayReportCallback()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="of a cluster that runs, or auto; without it, one is made on this machine")
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--npu", action="store_true", help="an Ascend card for each worker")
    parser.add_argument("--name", default="ray_train")
    parser.add_argument("--storage", default="ray_train_output", help="a folder that all nodes share, or s3://...")
    parser.add_argument("--output-dir", default="output", help="on each node; if relative, in Ray's own folder there")
    options = parser.parse_args()
    ray.init(address=options.address)
    trainer = MindNLPTrainer(
        train_on_ray,
        train_loop_config={"output_dir": options.output_dir},
        scaling_config=ScalingConfig(
            num_workers=options.num_workers, resources_per_worker={"NPU": 1} if options.npu else {"CPU": 1}
        ),
        run_config=RunConfig(
            name=options.name,
            storage_path=options.storage if "://" in options.storage else os.path.abspath(options.storage),
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"step {result.metrics['step']}: accuracy {result.metrics['eval_accuracy']:.3f}, {result.checkpoint.path}")


if __name__ == "__main__":
    main()
