"""Which rows come next."""

import functools

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="transformers.trainer",
    bridges="resuming in the middle of an epoch but the first: accelerate 1.11 reads on in the order of the first",
    obsolete_when="accelerate.skip_first_batches returns a loader of the epoch that the one it got is in",
)
def rows_of_the_resumed_epoch(trainer):
    stock = trainer.skip_first_batches

    @functools.wraps(stock)
    def skip_first_batches(dataloader, num_batches=0):
        rest = stock(dataloader, num_batches)
        rest.iteration = dataloader.iteration
        return rest

    trainer.skip_first_batches = skip_first_batches
