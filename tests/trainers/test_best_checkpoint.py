"""The best checkpoint stays, however the folder is called when a training goes on."""

from pathlib import Path
from types import SimpleNamespace

from mindnlp_dp_plugin.trainers.best_checkpoint import BestIsHere


def test_the_best_checkpoint_is_called_as_the_folder_is_now(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run", "checkpoint-8").mkdir(parents=True)
    for folder, best in ((tmp_path / "run", "run/checkpoint-8"), ("run", "/elsewhere/checkpoint-8")):
        state = SimpleNamespace(best_model_checkpoint=best)
        BestIsHere().on_train_begin(SimpleNamespace(output_dir=str(folder)), state, None)
        assert state.best_model_checkpoint == str(Path(folder, "checkpoint-8")), "or it is removed as an old one"
