"""On ranks: what the plugin changes in MindNLP and MindSpore, and that ``uninstall`` takes all of it back.

python taking_back.py
"""

import os

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore.communication
from mindnlp.core import ops
from mindnlp.core.nn import functional
from mindnlp.engine import Trainer, TrainingArguments

OWNERS = (Trainer, TrainingArguments, functional, ops, mindspore.communication, mindspore.communication.management)


def snapshot():
    return [dict(vars(owner)) for owner in OWNERS], dict(os.environ)


if __name__ == "__main__":
    assert dp.get_world_size() == 2 and "MULTI_NPU" not in os.environ
    armed = snapshot()
    assert "update_gradient_by_distributed_type" in Trainer.update_gradient_by_distributed_type.__qualname__
    arguments = TrainingArguments(output_dir="unused", per_device_train_batch_size=4)
    assert (arguments.world_size, arguments.process_index) == (2, dp.get_rank())
    assert arguments.local_process_index == dp.get_rank() and arguments.should_save == dp.is_main_process()

    dp.uninstall()
    found = snapshot()
    assert os.environ["MULTI_NPU"] == "true"
    assert (arguments.world_size, arguments.process_index) == (1, 0)
    assert Trainer.training_step.__code__.co_filename.endswith("trainer/base.py")
    assert not hasattr(Trainer, "data_parallel_config")

    dp.install()
    dp.install()
    assert "MULTI_NPU" not in os.environ and snapshot()[0] != found[0]
    assert [attributes.keys() for attributes in snapshot()[0]] == [attributes.keys() for attributes in armed[0]]
    dp.uninstall()
    dp.uninstall()
    assert snapshot() == found
    print("all taken back")
