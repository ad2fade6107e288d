"""Predict with a trained model: in Python, or on the ranks of ``mindnlp-dp predict``."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas
from tqdm import tqdm

from mindnlp_dp_plugin.distributed.ranks import all_gather_object, get_rank, get_world_size, is_main_process
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.scores import shown_label
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.words import say
from mindnlp_dp_plugin.recipes.writing import write_predictions

MOST_SHOWN = 20
MOST_IN_MATRIX = 12
MISTAKES_SHOWN = 5
PROBABILITY = "probability_"


class Predictor:
    """A trained model.

    Args:
        run: The folder of a finished recipe; it may have been copied from elsewhere.

    Raises:
        DataParallelError: If the folder holds no finished run.
    """

    def __init__(self, run: str | Path):
        from mindnlp.transformers import AutoTokenizer

        self.kept = RunFolder(run).results()
        folder = str(RunFolder(run).model)
        self.task = get_task(self.kept["task"])
        self._max_length = self.kept["settings"]["max_length"]
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = self.task.load_model(folder, self.kept)
        self._model.set_train(False)

    def __call__(
        self,
        texts: Sequence,
        batch_size: int = 32,
        all_probabilities: bool = False,
        max_new_tokens: int | None = None,
    ) -> list[dict]:
        """Predict for texts. All ranks must call it, with the same texts.

        Args:
            texts: A list of texts; of pairs ``(text, other text)``, if the model was trained on pairs; of texts or
                lists of words, if it was trained on words.
            batch_size: Texts at a time.
            all_probabilities: Whether to return the probability of each class, too.
            max_new_tokens: The longest answer of a language model.

        Returns:
            For each text ``label`` and, if that is a class, its ``probability``; or lists of ``labels`` and
            ``probabilities``, if the model chooses several; or ``tags`` and ``entities`` of words;
            or the ``answer`` to a question.
        """
        self.kept["max_new_tokens"] = max_new_tokens
        answers = self.task.gather(self.answers(texts, batch_size), self.kept)
        columns = self.task.predictions(answers, self.kept, all_probabilities)
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    def answers(self, texts: Sequence, batch_size: int = 32, show_progress: bool = False) -> list[np.ndarray]:
        """The model's logits for each text. All ranks must call it, with the same texts.

        Whole batches are sharded, so the results are the same on any number of ranks.

        Args:
            texts: As for a call.
            batch_size: Texts at a time; texts of like length stand together.
            show_progress: Whether rank 0 shows a bar.

        Returns:
            For each text an array, float32: of shape (outputs of the model,), or (words, outputs of the model).

        Raises:
            DataParallelError: If something else than texts is given, or pairs to a model of single texts.
        """
        if isinstance(texts, str):
            raise DataParallelError("texts={texts!r} is a single text: give a list of texts.", texts=texts[:40])
        texts = [self._as_row(*each) for each in enumerate(texts)]
        columns = self.task.inputs(self._tokenizer, texts, self._max_length, self.kept) if texts else {}
        rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
        order = sorted(range(len(rows)), key=lambda row: -len(rows[row]["input_ids"]))
        batches = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
        mine = batches[get_rank() :: get_world_size()]
        shown = show_progress and is_main_process()
        how = {"unit": tr("batch"), "file": sys.stdout, "ncols": 80, "mininterval": 1, "disable": not shown}
        answers = []
        for batch in tqdm(mine, tr("predicting"), **how):
            of_batch = ([each[row] for row in batch] for each in (rows, texts))
            answers.append((batch, self.task.answer(self._model, self._tokenizer, *of_batch, self.kept)))
        gathered = {}
        for answered in all_gather_object(answers):
            for batch, found in answered:
                gathered |= zip(batch, found)
        return [gathered[row] for row in range(len(rows))]

    def _as_row(self, number, text):
        try:
            return self.task.as_row(text, self.kept)
        except ValueError as error:
            raise DataParallelError("texts[{number}]: {error}.", number=number, error=error) from None


def answer(path: str) -> None:
    """What each rank of ``mindnlp-dp predict`` does.

    Args:
        path: Of the request.
    """
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    predictor, asked, labels = Predictor(request["run"]), request["texts"], request["labels"]
    task, kept = predictor.task, predictor.kept
    kept["max_new_tokens"] = request["max_new_tokens"]
    given = [row for row, texts in enumerate(asked) if all(texts)]
    texts = [tuple(asked[row]) for row in given]
    answers = predictor.answers(texts, request["batch_size"], show_progress=len(texts) > request["batch_size"])
    if not is_main_process():
        return
    for remark in request["remarks"]:
        print(say(remark))
    if empty := len(asked) - len(given):
        print(tr("rows without a text: {count}; they get no label", count=empty))
    columns = task.predictions(task.gather(answers, kept), kept, request["all_probabilities"])
    found = dict(zip(given, (dict(zip(columns, values)) for values in zip(*columns.values()))))
    nothing = dict.fromkeys(columns)
    rows = [{**task.named_texts(row, kept), **found.get(at, nothing)} for at, row in enumerate(asked)]
    if request["out"] is not None:
        out = Path(request["out"])
        unfinished = out.with_name(f"incomplete-{out.name}")
        write_predictions(unfinished, rows, kept.get("label_separator", ";"))
        unfinished.replace(out)
        print(tr("predictions written to {file}: {count}", file=request["out"], count=len(rows)))
    else:
        _show(task, kept, rows)
    known = [at for at, row in enumerate(given) if labels is not None and labels[row] is not None]
    if known:
        true = task.gather([labels[given[at]] for at in known], kept)
        scored = task.gather([answers[at] for at in known], kept)
        _show_scores(task, kept, task.score(scored, true, [texts[at] for at in known], kept))


def _show(task, kept, rows):
    for row in rows[:MOST_SHOWN]:
        texts = task.text_of(row, kept)
        predicted, chances = "-", []
        if all(value is not None for value in row.values()):
            predicted, asked = task.in_short(row, kept), [name for name in row if name.startswith(PROBABILITY)]
            chances = [f"{name.removeprefix(PROBABILITY)} {row[name]:.3f}" for name in asked]
        print("  ".join([predicted, *chances, texts if len(texts) <= 100 else texts[:100] + " ..."]))
    if len(rows) > MOST_SHOWN:
        print(tr("... and {count} more: give --out FILE for all", count=len(rows) - MOST_SHOWN))


def _show_scores(task, kept, scores):
    shown = task.in_words(scores, 4, kept.get("positive_label"))
    print(tr("rows with labels: {rows}; {scores}", rows=scores["rows"], scores=shown))
    names = kept.get("label_names", [])
    if "confusion_matrix" in scores and len(names) <= MOST_IN_MATRIX:
        matrix = pandas.DataFrame(scores["confusion_matrix"], names, names)
        print(tr("confusion matrix"), matrix.rename_axis(tr("true \\ predicted"), axis=1).to_string(), sep="\n")
    if scores.get("mistakes"):
        print(tr("the worst mistakes:"))
    for each in scores.get("mistakes", [])[:MISTAKES_SHOWN]:
        label, predicted = shown_label(each["label"]), shown_label(each["predicted"])
        verdict = tr("{label} taken for {predicted}", label=label, predicted=predicted)
        verdict += f" ({each['probability']:.3f})" if "probability" in each else ""
        verdict += f", {tr('possibly mislabelled')}" if each.get("is_label_doubtful") else ""
        print(f"  {verdict}: {' | '.join(each['texts'])}")
