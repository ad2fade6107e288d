"""Files that are written and read tensor by tensor are those of the libraries, to the byte."""

import mindnlp_dp_plugin  # noqa: F401  isort: skip

import mindspore
import numpy as np
import pytest
import safetensors.numpy
from mindnlp.core.serialization import save

from mindnlp_dp_plugin.checkpoint import archive, safe_unpickler, tensor_file
from mindnlp_dp_plugin.ddp.bucket import numpy_dtype
from mindnlp_dp_plugin.optim.gathering import StoredTensor

SHAPES = [(), (0,), (3,), (2, 5), (4, 0, 2), (7, 3, 2)]


def drawn():
    chance = np.random.default_rng(11)
    tensors = {}
    for kind in chance.permutation(list(tensor_file.KINDS)):
        for shape in SHAPES:
            name = f'{chance.integers(1000)}.é"{kind}.{len(shape)}'
            tensors[name] = np.asarray(chance.integers(0, 9, shape)).astype(numpy_dtype(kind))
    return tensors


@pytest.mark.parametrize("metadata", [None, {"format": "np"}], ids=str)
def test_it_has_the_bytes_of_safetensors_and_can_be_read_by_part(tmp_path, metadata):
    tensors, whole, pieces = drawn(), tmp_path / "whole", tmp_path / "pieces"
    safetensors.numpy.save_file(tensors, whole, metadata)
    shapes = {name: (values.dtype, values.shape) for name, values in tensors.items()}
    tensor_file.write(pieces, shapes, lambda name: np.array_split(tensors[name].reshape(-1), 3), metadata)
    assert pieces.read_bytes() == whole.read_bytes()

    found = tensor_file.read(
        whole, lambda path, place, name, shape: StoredTensor(path, place, numpy_dtype(name), shape)
    )
    assert found.keys() == tensors.keys()
    for name, values in tensors.items():
        begin, end = values.size // 3, values.size
        assert found[name].shape == values.shape
        assert found[name].run(begin, end).tobytes() == values.reshape(-1)[begin:end].tobytes()


@pytest.mark.parametrize("write, stays", [(archive.write, True), (save, False)], ids=["archive", "mindnlp"])
def test_large_states_stay_in_the_file(tmp_path, write, stays):
    chance, path = np.random.default_rng(5), str(tmp_path / "optimizer.ckpt")
    arrays = [chance.standard_normal((300 + number, 100)).astype(np.float32) for number in range(3)]
    states = {
        number: {"step": number, "large": mindspore.Tensor(array), "small": mindspore.Tensor(array[0]), "array": array}
        for number, array in enumerate(arrays)
    }
    write({"state": states, "param_groups": [{"lr": 0.1, "params": [0, 1, 2]}]}, path)
    found = safe_unpickler.load_later(path, StoredTensor)
    assert found["param_groups"] == [{"lr": 0.1, "params": [0, 1, 2]}]
    for number, array in enumerate(arrays):
        state = found["state"][number]
        assert state["step"] == number and np.array_equal(state["array"], array)
        assert np.array_equal(state["small"].asnumpy(), array[0])
        assert (type(state["large"]) is StoredTensor) == stays and isinstance(state["large"], mindspore.Tensor)
        large = state["large"].run(5, 555) if stays else state["large"].asnumpy().reshape(-1)[5:555]
        assert np.array_equal(large, array.reshape(-1)[5:555])
        if stays:
            half = state["large"].to(dtype=mindspore.float16).run(5, 555)
            assert np.array_equal(half, array.reshape(-1)[5:555].astype(np.float16))


def test_states_have_their_dtype_shape_and_values(tmp_path):
    tensors, path = drawn(), str(tmp_path / "optimizer.ckpt")
    tensors["turned"] = np.arange(6.0).reshape(2, 3).T
    archive.write({"arrays": tensors, "tensor": mindspore.Tensor([1, 2.5], mindspore.bfloat16)}, path)
    for found in (safe_unpickler.load(path), safe_unpickler.load_later(path, StoredTensor)):
        assert found["tensor"].dtype == mindspore.bfloat16 and found["tensor"].float().asnumpy().tolist() == [1, 2.5]
        for name, values in tensors.items():
            assert (found["arrays"][name].dtype, found["arrays"][name].shape) == (values.dtype, values.shape)
            assert found["arrays"][name].tobytes() == values.tobytes()
