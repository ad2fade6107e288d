"""MindSpore's own loops and collectives: answered through the plugin's engine where MindSpore's are not there."""

from collections.abc import Callable

from mindnlp_dp_plugin.collectives import Collective, compared_at_the_end
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.trainers.guard import Summed


def hook(
    group: Collective, summed: Summed, when_imported: Callable, patches: Patches, trains_apart: bool = False
) -> None:
    """Answer MindSpore's functions and operators on ranks, or only count what they sum where they work.

    Args:
        group: More than one rank. MindSpore is imported.
        summed: Notes what the script sums.
        when_imported: Calls a function with a module when that is imported.
        patches: Restores MindSpore.
        trains_apart: Whether ranks may begin with different models.
    """
    import mindspore
    from mindspore.nn.wrap import grad_reducer
    from mindspore.train import serialization

    from mindnlp_dp_plugin.trainers.mindspore import collectives, ranks, saving, training
    from mindnlp_dp_plugin.trainers.mindspore.beginnings import Beginnings
    from mindnlp_dp_plugin.trainers.mindspore.endings import Endings
    from mindnlp_dp_plugin.trainers.mindspore.exchanges import Exchanges

    if group.forms_cluster:
        training.count_sums(summed, patches)
    else:
        ranks.answer_for_ranks(group, patches)
        training.answer_over_mpi(group, summed, patches)
    is_on_cpu = mindspore.get_context("device_target") == "CPU"
    saving.apart_from_other_ranks(serialization, group.rank, patches)
    beginnings = Beginnings(group)
    if not trains_apart:
        beginnings.follow_reducers(grad_reducer.DistributedGradReducer, patches)
        summed.on_first_step = beginnings.note
        if is_on_cpu:  # elsewhere each step would wait for the device
            endings = Endings(summed)
            summed.on_step, beginnings.on_refusal = endings.note, endings.forget
            compared_at_the_end.append(endings.told)
            patches.on_undo(lambda: compared_at_the_end.remove(endings.told))
    exchanges = Exchanges(group, summed, beginnings)
    for name, kind in collectives.KINDS.items():
        when_imported(
            name,
            lambda module, kind=kind: (
                collectives.answer(module, kind(exchanges), patches)
                if is_on_cpu
                else collectives.count_sums(module, summed, patches)
            ),
        )
