"""The input of a prediction, texts, pairs or a file, checked before any rank starts."""

import json
from pathlib import Path
from typing import NamedTuple

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.tasks import get_task


class Request(NamedTuple):
    """What a model is to predict.

    Attributes:
        run: Folder of the run.
        texts: One text, or the two of a pair, or the words of a sentence, for each row.
        labels: The true label of each row, as data have it, or None where it is not known; None if no row has one.
        remarks: What was assumed.
        out: File for the predictions.
        batch_size: Rows at a time.
        all_probabilities: Whether that of each class is wanted.
        max_new_tokens: The longest answer of a language model; None: its own.
    """

    run: str
    texts: list
    labels: list | None = None
    remarks: list = []
    out: str | None = None
    batch_size: int = 32
    all_probabilities: bool = False
    max_new_tokens: int | None = None

    def save(self, path: Path) -> None:
        """Write it for the ranks."""
        path.write_text(json.dumps(self._asdict()), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Request":
        """Read what ``save`` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def make_request(run: Path, inputs: tuple[str, ...], columns: tuple, label: str | None, encoding, **how) -> Request:
    """Read what is to be predicted.

    Args:
        run: Folder of the run.
        inputs: Texts, for pairs in turn; or one file.
        columns: The text columns of the file, if the user named them.
        label: Its label column, if the user named it.
        encoding: Of the file, if the user named it.
        how: Other attributes of the request.

    Raises:
        DataParallelError: If the run, the texts or the file cannot be used.
    """
    results = RunFolder(run).results()
    task, out = get_task(results["task"]), how.get("out")
    if out is not None and Path(out).suffix.lower() not in task.out_suffixes:
        raise DataParallelError(
            "--out {out!r} has an unknown suffix: give one of {suffixes}.",
            out=str(out),
            suffixes=", ".join(task.out_suffixes),
        )
    if out is not None and not Path(out).absolute().parent.is_dir():
        raise DataParallelError("--out {out!r}: its folder does not exist.", out=str(out))
    if how.get("max_new_tokens") is not None and not task.generates:
        raise DataParallelError(
            "--max-new-tokens {max_new_tokens} is for language models, and this run's task is {task}: leave it out.",
            max_new_tokens=how["max_new_tokens"],
            task=task.name,
        )
    first, *others = inputs
    if not others and _is_file(path := Path(first)):
        return Request(str(run), *task.read_asked(path, results, columns, label, encoding), **how)
    if not others and first.lower().endswith((*task.file_suffixes, ".xls")) and not any(map(str.isspace, first)):
        raise DataParallelError(
            "{path!r} does not exist: check the path, from {cwd!r}.", path=first, cwd=str(Path.cwd())
        )
    size = len(results["data"]["text_columns"])
    if len(inputs) % size:
        raise DataParallelError(
            "the run was trained on pairs of texts: give two texts for each, not {count}.", count=len(inputs)
        )
    texts = [tuple(map(str.strip, inputs[at : at + size])) for at in range(0, len(inputs), size)]
    return Request(str(run), [list(task.as_row(row, results)) for row in texts], **how)


def _is_file(path):
    try:
        return path.is_file()
    except OSError:  # a text longer than any name of a file
        return False
