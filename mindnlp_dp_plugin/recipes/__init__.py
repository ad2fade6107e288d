"""Text classification, ready to run: from a file of texts and labels to a folder with a model and a report.

The examples are put together from these parts; ``mindnlp-dp recipe`` runs them as they are.
"""

from mindnlp_dp_plugin.recipes.reviews import generate_reviews
from mindnlp_dp_plugin.recipes.small_models import save_small_bert, save_small_roberta

__all__ = ["generate_reviews", "save_small_bert", "save_small_roberta"]
