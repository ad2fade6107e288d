"""Search for a learning rate: each trial of Ray Tune is a training on two workers, and bad ones end early.

pip install 'mindnlp-dp-plugin[ray,mindnlp04]'
python ray_tune.py --trials 4
"""

import argparse
import os

import ray
from ray import tune
from ray.train import ScalingConfig

from mindnlp_dp_plugin.ray import hyperparameter_search


def train(config):
    """The training of ray_train.py; each trial has an ``output_dir`` of its own in Ray's folder."""
    from ray_train import train_on_ray

    train_on_ray({**config, "output_dir": "output"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="of a cluster that runs, or auto; without it, one is made on this machine")
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--storage", default="ray_tune_output", help="a folder that all nodes share, or s3://...")
    options = parser.parse_args()
    # The workers import what lies beside this file.
    ray.init(address=options.address, runtime_env={"env_vars": {"PYTHONPATH": python_path()}})
    best = hyperparameter_search(
        train,
        {"learning_rate": tune.loguniform(1e-5, 1e-2)},
        metric="eval_accuracy",
        direction="maximize",
        n_trials=options.trials,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=tune.RunConfig(name="ray_tune", storage_path=os.path.abspath(options.storage)),
    )
    print(best.results.get_dataframe()[["eval_accuracy", "loss", "epoch", "config/learning_rate"]].to_string())
    print(f"best: {best.hyperparameters}, accuracy {best.objective:.3f}")


def python_path():
    here = os.path.dirname(os.path.abspath(__file__))
    return os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))


if __name__ == "__main__":
    main()
