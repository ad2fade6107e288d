"""What programs note of a model, and what they are told; with either MindNLP."""

import hashlib
from contextlib import contextmanager

import numpy as np

import mindnlp_dp_plugin as dp


def weights_of(model):
    return [parameter.asnumpy() for parameter in model.parameters()]


def flat(model):
    """All weights, one behind the other."""
    return np.concatenate([values.ravel() for values in weights_of(model)])


def digest_of(model):
    return hashlib.sha256(b"".join(values.tobytes() for values in weights_of(model))).hexdigest()


@contextmanager
def installed(**settings):
    """The plugin with these settings, afterwards as it was."""
    dp.install(dp.DataParallelConfig(**settings))
    try:
        yield
    finally:
        dp.install()


def refusal_of(action, *arguments, **options):
    """What an action is refused with; None if it ends well."""
    try:
        action(*arguments, **options)
    except dp.DataParallelError as error:
        return str(error)
