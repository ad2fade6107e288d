"""Which rows torch.utils.data.DistributedSampler would give a rank, written down as its documentation says it."""


def rows_of_rank(order, num_replicas, rank, drop_last):
    """Cut or repeat ``order`` until it divides by the ranks, then deal it out one row at a time."""
    rows = list(order)
    if drop_last:
        while len(rows) % num_replicas:
            rows.pop()
    else:
        position = 0
        while len(rows) % num_replicas:
            rows.append(rows[position])
            position += 1
    return [row for position, row in enumerate(rows) if position % num_replicas == rank]
