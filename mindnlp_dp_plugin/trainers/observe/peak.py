"""What a rank's device can compute at most, in TFLOPS: 1e12 floating point operations a second."""

import timeit
from collections.abc import Callable

import mindspore
import numpy as np

from mindnlp_dp_plugin.config import MEASURED

# In half precision, by MindSpore's name of the device. 910A: "DaVinci: A Scalable Architecture for Neural Network
# Computing" (Liao et al., Huawei, Hot Chips 31, 2019). 910B: the peaks of the Cube units in Huawei's torchtitan-npu
# (2026), which has them for MFU; its larger figures, 313 for 910B3, are those of data sheets and count vector units,
# too.
KNOWN = {
    "Ascend910A": 256.0,
    "Ascend910B1": 373.88,
    "Ascend910B2": 353.8944,
    "Ascend910B3": 294.912,
    "Ascend910B4": 245.76,
}
SIZE = 1024  # of the matrices: one core of a CPU takes some 20 ms for their product
TRIALS = 20


def peak_tflops(setting: float | str | None) -> float | None:
    """The peak of this rank's device; None if nobody knows.

    Args:
        setting: ``DataParallelConfig.peak_tflops``.
    """
    if setting == MEASURED:
        return measured_tflops()
    return KNOWN.get(device_name()) if setting is None else float(setting)


def device_name() -> str:
    """MindSpore's name of the device, such as ``Ascend910B3``; ``CPU`` for a CPU."""
    target = mindspore.get_context("device_target")
    return target if target == "CPU" else mindspore.hal.get_device_name(mindspore.get_context("device_id"), target)


def measured_tflops() -> float:
    """The best of some float32 products of square matrices, by what models compute with or, on a CPU, NumPy's BLAS."""
    matrix = np.random.default_rng(0).standard_normal((SIZE, SIZE), np.float32)
    tensor = mindspore.Tensor(matrix)
    ways = [lambda: mindspore.ops.matmul(tensor, tensor).asnumpy(), lambda: (tensor @ tensor).asnumpy()]
    if mindspore.get_context("device_target") == "CPU":
        ways.append(lambda: matrix @ matrix)
    return 2 * SIZE**3 / min(map(seconds_of, ways)) / 1e12


def seconds_of(product: Callable[[], object]) -> float:
    """The shortest time in which it was done."""
    return min(timeit.repeat(product, number=1, repeat=TRIALS))
