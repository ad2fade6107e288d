"""Rank 0 is busy for longer than MCCL waits of its own accord; the others are to wait for it."""

import time

import mindnlp_dp_plugin as dp

LATE_S = 32

if __name__ == "__main__":
    if dp.is_main_process():
        time.sleep(LATE_S)
    dp.barrier()
    assert dp.all_gather_object(dp.get_rank()) == list(range(dp.get_world_size()))
