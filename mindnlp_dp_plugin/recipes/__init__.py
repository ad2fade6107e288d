"""What the examples share: reviews and a RoBERTa that need neither network nor files."""

from mindnlp_dp_plugin.recipes.reviews import generate_reviews
from mindnlp_dp_plugin.recipes.small_roberta import save_small_roberta

__all__ = ["generate_reviews", "save_small_roberta"]
