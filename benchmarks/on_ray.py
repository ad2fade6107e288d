"""Workers of Ray on two nodes of this machine train the example beside ``mindnlp-dp run``: ``make ray``.

    python benchmarks/on_ray.py

The same function is trained by ``mindnlp-dp run --backend mccl``, by Ray, and by Ray while a rank is killed in the
middle of an epoch; then the examples run as users run them. Results are written to
``benchmarks/results/ray_<cpu>_<date>.json`` and ``.md``.
"""

import hashlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import psutil
import ray
from ray.cluster_utils import Cluster
from ray.train import FailureConfig, RunConfig, ScalingConfig

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from mindnlp_dp_plugin.ray import MindNLPTrainer
from tests.harness import REPOSITORY, run, run_ranks_successfully

EXAMPLES = REPOSITORY / "examples" / "clusters"
ALONE = "import json, sys; from ray_train import train; train(json.loads(sys.argv[1]))"
STEPS_IN_EPOCH, KILLED_AT = 25, 33
GONE_WITHIN_S = 30


def main():
    os.environ["PYTHONPATH"] = os.pathsep.join([str(EXAMPLES), str(REPOSITORY)])
    results = {"ray": version("ray"), "runs": {}}
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-ray-") as name:
        folder = Path(name)
        results["runs"]["mindnlp-dp run --backend mccl"] = train_by_run(folder / "run")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address)
        results["runs"]["Ray, two nodes"] = train_by_ray(folder / "ray")
        results["runs"]["Ray, a rank killed in the second epoch"] = train_by_ray(folder / "killed", KILLED_AT)
        _, left = psutil.wait_procs(list(ranks_of_ray()), timeout=GONE_WITHIN_S)
        results["processes_left"] = len(left)
        results["examples"] = [
            run_example(script, folder, "--address", cluster.address, *options)
            for script, options in (("ray_train.py", ()), ("ray_tune.py", ("--trials", "3")))
        ]
        ray.shutdown()
        cluster.shutdown()
    digests = {one["sha256"] for one in results["runs"].values()}
    results["same_bits"] = len(digests) == 1
    write_results("ray", results, summary(results))
    sys.exit(not results["same_bits"] or results["processes_left"] > 0)


def config_of(output):
    return {"output_dir": str(output), "epochs": 2}


def train_by_run(output):
    output.mkdir()
    program = output / "program.py"
    program.write_text("import mindnlp_dp_plugin\n" + ALONE.replace("; ", "\n"))
    run_ranks_successfully(
        program, json.dumps(config_of(output)), ranks=2, backend="mccl", log_dir=output / "logs",
        env={"PYTHONPATH": os.environ["PYTHONPATH"]},
    )  # fmt: skip
    return {"sha256": sha256_of(output)}


def train_and_die(config):
    """The example's function; once, rank 1 is killed at a step."""
    from mindnlp_dp_plugin.trainers.mindnlp.public import TrainerCallback  # isort: skip

    from ray_train import train

    import mindnlp_dp_plugin as dp
    from mindnlp_dp_plugin.ray import RayReportCallback

    class Killer(TrainerCallback):
        has_begun = False

        def on_step_begin(self, args, state, control, **kwargs):
            if not self.has_begun and dp.is_main_process():
                with Path(config["output_dir"], "begun").open("a") as file:
                    print(state.global_step, time.time(), file=file)
            self.has_begun = True
            mark = Path(config["output_dir"], "killed")
            if state.global_step == config["killed_at"] and dp.get_rank() == 1 and not mark.exists():
                mark.write_text(str(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)

    train(config, [RayReportCallback(), Killer()])


def train_by_ray(output, killed_at=None):
    output.mkdir()
    result = MindNLPTrainer(
        train_and_die,
        train_loop_config={**config_of(output), "killed_at": killed_at},
        scaling_config=ScalingConfig(num_workers=2, placement_strategy="SPREAD"),
        run_config=RunConfig(
            name=output.name, storage_path=str(output / "storage"), failure_config=FailureConfig(max_failures=1)
        ),
    ).fit()
    begun = [line.split() for line in (output / "begun").read_text().splitlines()]
    found = {"sha256": sha256_of(output), "began_at_steps": [int(step) for step, _ in begun]}
    if killed_at:
        found |= {"killed_at_step": killed_at, "epoch_has_steps": STEPS_IN_EPOCH}
        found["seconds_until_it_goes_on"] = round(float(begun[-1][1]) - float((output / "killed").read_text()), 1)
    return {**found, "metrics": {name: result.metrics[name] for name in ("step", "loss", "eval_accuracy")}}


def run_example(script, folder, *options):
    storage = folder / script
    finished = run([sys.executable, EXAMPLES / script, "--storage", storage, *options], cwd=folder)
    if finished.returncode != 0:
        sys.exit(f"{script}:\n{finished.stdout}\n{finished.stderr}")
    lines = [line for line in finished.stdout.splitlines() if re.match("step |best: ", line)]
    return {"example": script, "said": lines[-1].replace(str(folder), "...")}


def sha256_of(output):
    return hashlib.sha256((output / "model" / "model.safetensors").read_bytes()).hexdigest()


def ranks_of_ray():
    for process in psutil.process_iter():
        try:
            if process.environ().get("MINDNLP_DP_JOB", "").startswith("ray-"):
                yield process
        except psutil.Error:
            pass


def summary(results):
    killed = results["runs"]["Ray, a rank killed in the second epoch"]
    rows = [
        f"| {name} | `{one['sha256']}` | {one.get('began_at_steps', [0])} |" for name, one in results["runs"].items()
    ]
    return "\n".join(
        [
            f"Ray {results['ray']}. Two ranks, 50 steps, {STEPS_IN_EPOCH} an epoch, a checkpoint every 10.",
            "",
            "| trained by | sha256 of the model | attempts began at step |",
            "| --- | --- | --- |",
            *rows,
            "",
            f"Killed at step {killed['killed_at_step']}, rank 1 by SIGKILL; {killed['seconds_until_it_goes_on']} s "
            "until the next step.",
            f"Processes left: {results['processes_left']}.",
            "",
            *(f"- `{example['example']}`: {example['said']}" for example in results["examples"]),
        ]
    )


if __name__ == "__main__":
    main()
