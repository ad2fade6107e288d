"""One process in graph mode is told so, too."""

import mindspore
import pytest

from mindnlp_dp_plugin.errors import DataParallelError
from tests.programs.tiny import tiny_trainer


def test_graph_mode_is_refused_before_the_first_step(tmp_path):
    trainer = tiny_trainer(tmp_path)
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    try:
        with pytest.raises(DataParallelError, match="mode=GRAPH_MODE"):
            trainer.train()
    finally:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
