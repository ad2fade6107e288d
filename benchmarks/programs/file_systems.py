"""Stop and resume on hosts of which each has the folder OWN to itself, and which share the folder SHARED.

    python file_systems.py OWN SHARED

Leaves in ``OWN/ended.json`` what this rank ended with without a stop (``whole``), and what when it was resumed, or what
it was told: with ``own`` and ``shared`` folders, where rank 0 alone writes, and where each host does.
"""

import json
import sys
from pathlib import Path

import mindnlp_dp_plugin as dp
from tests.programs.resume_scenarios import EACH_STEP, RemembersTheLast, shuffled
from tests.programs.tiny import tiny_dataset, tiny_model, tiny_trainer

OWN, SHARED = Path(sys.argv[1]), Path(sys.argv[2])
NUM_STEPS = 3


def train(folder, max_steps, resume=None, on_each_node=False):
    arguments = dict(EACH_STEP, max_steps=max_steps, save_on_each_node=on_each_node)
    arguments["lr_scheduler_type"] = "constant"  # so that the first steps do not depend on how many are to come
    model = tiny_model(seed=4 if resume else 3)
    trainer = tiny_trainer(folder, model, shuffled(9), RemembersTheLast, **arguments)
    trainer.eval_dataset = tiny_dataset(num_rows=24)
    trainer.train(resume_from_checkpoint=resume)
    dp.check_replicas(model)  # rank 0 has loaded the best
    return trainer.ended_with()


def stop_and_resume(folder, **options):
    try:
        train(folder, NUM_STEPS - 1, **options)
        return train(folder, NUM_STEPS, resume=True, **options)
    except dp.DataParallelError as error:
        return str(error)


def main():
    ended = {
        "whole": train(OWN / "whole", NUM_STEPS),
        "own": stop_and_resume(OWN / "from_rank_0"),
        "own_on_each_node": stop_and_resume(OWN / "from_each", on_each_node=True),
        "shared": stop_and_resume(SHARED / "from_rank_0"),
        "shared_on_each_node": stop_and_resume(SHARED / "from_each", on_each_node=True),
        "local_rank": dp.get_local_rank(),
    }
    OWN.mkdir(exist_ok=True)
    (OWN / "ended.json").write_text(json.dumps(ended))


main()
