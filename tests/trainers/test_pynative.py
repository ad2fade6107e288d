"""Graph mode is refused before the first step, by each door, in one process, too."""

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import pytest
from mindnlp.core import optim

from tests.programs.tiny import tiny_model, tiny_trainer


@pytest.fixture
def in_graph_mode():
    yield lambda: mindspore.set_context(mode=mindspore.GRAPH_MODE)
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)


def test_the_trainer(tmp_path, in_graph_mode):
    trainer = tiny_trainer(tmp_path)
    in_graph_mode()
    with pytest.raises(dp.DataParallelError, match="mode=GRAPH_MODE: MindNLP's models train in PyNative mode only"):
        trainer.train()


def test_a_loop_of_ones_own(in_graph_mode):
    model = tiny_model()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    in_graph_mode()
    with pytest.raises(dp.DataParallelError, match="mode=GRAPH_MODE: MindNLP's models train in PyNative mode only"):
        dp.prepare(model, optimizer)
