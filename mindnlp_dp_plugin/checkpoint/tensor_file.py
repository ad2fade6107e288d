"""Files of safetensors, written and read tensor by tensor: their beginning is known before any tensor is."""

import json
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

KINDS = {  # in the order in which the library lays them out
    "uint64": "U64",
    "int64": "I64",
    "float64": "F64",
    "float32": "F32",
    "uint32": "U32",
    "int32": "I32",
    "bfloat16": "BF16",
    "float16": "F16",
    "uint16": "U16",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
DTYPES = {kind: name for name, kind in KINDS.items()}
ALIGNED_TO = LENGTH_BYTES = 8


def write(
    path: str | PathLike,
    tensors: Mapping[str, tuple[np.dtype, tuple[int, ...]]],
    values_of: Callable[[str], Iterable[np.ndarray]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write what ``safetensors.numpy.save_file`` writes, to the byte.

    Args:
        path: The file.
        tensors: Dtype and shape of each, by name.
        values_of: Returns a tensor's values, in as many arrays as it likes. It is called once for each name.
        metadata: Goes into the header.
    """
    kinds = list(KINDS)
    header, end = {"__metadata__": dict(metadata)} if metadata else {}, 0
    for name in sorted(tensors, key=lambda name: (kinds.index(tensors[name][0].name), name.encode())):
        dtype, shape = tensors[name]
        begin, end = end, end + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        header[name] = {"dtype": KINDS[dtype.name], "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED_TO)
    with Path(path).open("wb") as file:
        file.write(len(text).to_bytes(LENGTH_BYTES, "little") + text)
        for name in filter(tensors.__contains__, header):
            for values in values_of(name):
                file.write(np.ascontiguousarray(values).reshape(-1).view(np.uint8))


def read(path: str | PathLike, later: Callable[[str, int, str, tuple], Any]) -> dict[str, Any]:
    """What stands for the tensors of a file, by name.

    Args:
        path: The file.
        later: Makes what stands for one, given the file, the place of its first byte, the name of its dtype, and shape.
    """
    with Path(path).open("rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    begin = LENGTH_BYTES + length
    return {
        name: later(str(path), begin + found["data_offsets"][0], DTYPES[found["dtype"]], tuple(found["shape"]))
        for name, found in header.items()
    }
