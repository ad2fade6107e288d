"""Import MindNLP in two thirds of the time: it brings all its models, whichever is used."""

import functools
import gc
import importlib.util
import sys
from importlib.abc import MetaPathFinder

import wrapt


def schedule() -> None:
    """Let the import of MindNLP be quick, if it is still to come."""
    if "mindnlp" not in sys.modules:
        sys.meta_path.insert(0, _WithoutCollections())
        wrapt.register_post_import_hook(_add_words_when_needed, "jieba")


class _WithoutCollections(MetaPathFinder):
    """Finds MindNLP as others do, but nobody looks for garbage while it is executed, which makes a million objects."""

    def find_spec(self, fullname, path, target=None):
        if fullname != "mindnlp":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            spec.loader.exec_module = _without_collections(spec.loader.exec_module)
        return spec


def _without_collections(execute):
    def exec_module(module):
        if not gc.isenabled():
            return execute(module)
        gc.disable()
        try:
            return execute(module)
        finally:
            gc.freeze()  # modules and classes stay: no later collection has to visit them
            gc.enable()

    return exec_module


def _add_words_when_needed(jieba):
    """Let words wait for jieba's dictionary (60 MB), which the first one loads; GPT-Pangu adds some at import."""
    tokenizer, waiting = jieba.dt, []
    stock = tokenizer.initialize

    @functools.wraps(jieba.add_word)
    def add_word(word, freq=None, tag=None):
        if tokenizer.initialized:
            tokenizer.add_word(word, freq, tag)
        else:
            waiting.append((word, freq, tag))

    @functools.wraps(stock)
    def initialize(dictionary=None):
        stock(dictionary)
        while waiting:
            tokenizer.add_word(*waiting.pop(0))

    jieba.add_word, jieba.initialize, tokenizer.initialize = add_word, initialize, initialize
