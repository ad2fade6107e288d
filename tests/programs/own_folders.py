"""Stop and resume where every host has the folder OUTPUT to itself, or where all share it.

    python own_folders.py OUTPUT

Leaves in ``OUTPUT/ended.rank<r>.json`` what this rank ended with without a stop (``whole``), and when resumed: from
what rank 0 alone wrote (``resumed``), and from what each host wrote (``resumed_on_each_node``; left out where OUTPUT is
shared).
"""

import json
import sys
from pathlib import Path

import mindnlp_dp_plugin as dp
from tests.programs.resume_scenarios import RemembersTheLast, evaluating_and_saving_each_step, shuffled
from tests.programs.tiny import tiny_dataset, tiny_model

OUTPUT = Path(sys.argv[1])


def train(name, max_steps, resume=None, on_each_node=False):
    arguments = evaluating_and_saving_each_step(OUTPUT / name, max_steps)
    arguments.lr_scheduler_type = "constant"  # so that the first steps do not depend on how many are to come
    arguments.save_on_each_node = on_each_node
    model = tiny_model(seed=4 if resume else 3)
    trainer = RemembersTheLast(model, arguments, train_dataset=shuffled(9), eval_dataset=tiny_dataset(num_rows=24))
    trainer.train(resume_from_checkpoint=resume)
    dp.check_replicas(model)  # rank 0 has loaded the best
    return trainer.ended_with()


def stop_and_resume(name, **options):
    train(name, 2, **options)
    try:
        return train(name, 4, resume=True, **options)
    except dp.DataParallelError as error:
        return str(error)


def main():
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / f"present.rank{dp.get_rank()}").touch()
    dp.barrier()
    is_shared = len(list(OUTPUT.glob("present.*"))) > 1
    ended = {"local_rank": dp.get_local_rank(), "whole": train("whole", 4), "resumed": stop_and_resume("resumed")}
    if not is_shared:
        ended["resumed_on_each_node"] = stop_and_resume("resumed_on_each_node", on_each_node=True)
    (OUTPUT / f"ended.rank{dp.get_rank()}.json").write_text(json.dumps(ended))


main()
