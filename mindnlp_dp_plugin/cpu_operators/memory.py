"""Let the C library keep the memory of NumPy's arrays for later arrays."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
LARGEST_KEPT = 2**28
LARGEST_BEFORE_GLIBC_2_35 = 2**25  # refuses more, as mallopt(3) says
MOST_KEPT = 2**31 - 1


def keep_freed_memory() -> None:
    """Let the process keep the memory of arrays up to 256 MB (32 MB with an old glibc), 2 GB in total.

    By default glibc returns the memory of a large array to the system, which clears it for the next: a tenth of a step.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not in every C library
    if mallopt:
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT) or mallopt(M_MMAP_THRESHOLD, LARGEST_BEFORE_GLIBC_2_35)
        mallopt(M_TRIM_THRESHOLD, MOST_KEPT)
