"""Which Ascend card a worker takes: the one that Ray has assigned to it."""

import os
from collections.abc import Mapping, Sequence

from mindnlp_dp_plugin.collectives.engines import runs_on
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.hardware import has_ascend, visible_devices

RESOURCE = "NPU"  # Ray's name


def choose_device(accelerators: Mapping[str, Sequence[str]], settings: DataParallelConfig) -> int | None:
    """The number of the assigned card among those that this process sees; None on a CPU.

    Ray shows a worker its card alone, by ``ASCEND_RT_VISIBLE_DEVICES``; MindSpore numbers what it sees from 0. With
    ``RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES`` the worker sees what the node's Ray sees.

    Args:
        accelerators: What ``get_accelerator_ids`` of Ray's runtime context says.
        settings: The plugin's.

    Raises:
        DataParallelError: If Ray has assigned several cards, or none where MindSpore would take one.
    """
    assigned = [str(card) for card in accelerators.get(RESOURCE, [])]
    if len(assigned) > 1:
        raise DataParallelError(
            "resources_per_worker gives a worker the {count} cards {cards}, but a rank uses one: ask for "
            '{{"NPU": 1}}, and for more workers.',
            count=len(assigned),
            cards=", ".join(assigned),
        )
    if assigned:
        visible = visible_devices() or []
        if assigned[0] in visible:
            return visible.index(assigned[0])
        if visible:
            raise DataParallelError(
                "Ray has assigned card {card}, but ASCEND_RT_VISIBLE_DEVICES={visible} does not show it: leave the "
                "variable to Ray.",
                card=assigned[0],
                visible=",".join(visible),
            )
        return int(assigned[0])
    computes_on_cpu = runs_on(settings.backend, "CPU") or os.environ.get("DEVICE_TARGET") == "CPU"
    if runs_on(settings.backend, "Ascend") or (has_ascend() and not computes_on_cpu):
        raise DataParallelError(
            "this node has Ascend cards, but Ray has assigned none to the worker, which might take a card of another "
            'job: ask for resources_per_worker={{"NPU": 1}}, or train on the CPU with backend="mccl".'
        )
    return None
