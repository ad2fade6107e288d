"""Trainings on texts, ready to run: from a file of texts and labels to a folder with a model and a report.

``mindnlp-dp recipe`` runs it. The examples take from here only what lets them run without a hub.
"""

from mindnlp_dp_plugin.recipes.reviews import generate_reviews, save_offline_inputs
from mindnlp_dp_plugin.recipes.small_models import save_small_bert, save_small_roberta

__all__ = ["generate_reviews", "load_predictor", "save_offline_inputs", "save_small_bert", "save_small_roberta"]


def load_predictor(run):
    """The model that a recipe left in a folder, ready to classify lists of texts.

    Args:
        run: The folder.

    Returns:
        A ``Predictor``.

    Raises:
        DataParallelError: If the folder holds no finished run.
    """
    from mindnlp_dp_plugin.recipes.prediction import Predictor

    return Predictor(run)
