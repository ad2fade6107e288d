"""Let the C library keep the memory of NumPy's arrays, for the next ones of a step to use."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
LARGEST_KEPT = 2**28
LARGEST_BEFORE_GLIBC_2_35 = 2**25  # refuses more, as mallopt(3) says
MOST_KEPT = 2**31 - 1


def keep_freed_memory() -> None:
    """Give arrays of up to 256 MB (32 MB with an old glibc) memory that stays with the process, up to 2 GB of it.

    As it comes, glibc gives the memory of a large array back to the system, which then has to clear it anew for the
    next: a tenth of a step.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not in every C library
    if mallopt:
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT) or mallopt(M_MMAP_THRESHOLD, LARGEST_BEFORE_GLIBC_2_35)
        mallopt(M_TRIM_THRESHOLD, MOST_KEPT)
