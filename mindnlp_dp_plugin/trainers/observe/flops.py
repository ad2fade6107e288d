"""What a model computes for rows of given lengths, by formula, in floating point operations.

That of "PaLM: Scaling Language Modeling with Pathways" (Chowdhery et al., 2022, appendix B), after "Scaling Laws for
Neural Language Models" (Kaplan et al., 2020, section 2.1): two for each weight of a matrix product and token, twice
that in backward, and the products of attention, which grow with the square of the length. Padding does no work, and
what is recomputed is not counted twice.
"""

import math
from collections import Counter

import numpy as np

FORWARD, BACKWARD_TO_INPUTS, BACKWARD_TO_WEIGHTS = 2, 2, 2  # for each weight and token
ATTENTION = 12  # two products, forward and both ways back, two for each query, key and number of the width
OF_A_ROW = ("ForSequenceClassification", "ForMultipleChoice", "ForNextSentencePrediction")
CROSS_ATTENTION = ("encoder_attn", "EncDecAttention", "crossattention", "cross_attn")
KEYS_AND_VALUES = ("k", "v", "k_proj", "v_proj", "key", "value")


class ModelFlops:
    """The formula for a model: what one token of its inputs, one that it decodes, and one row take.

    Each weight of a product counts once for a token, those of an expert as often as tokens are sent to it, those of
    layers that are used again (ALBERT) as often as they are. A frozen weight needs no gradient of its own.

    Args:
        model: The model, or the one that an adapter is put on. Without a ``config``, attention is not counted.
    """

    def __init__(self, model):
        model = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._config = getattr(model, "config", None)
        self.is_encoder_decoder = bool(getattr(self._config, "is_encoder_decoder", False))
        self._of_weights = Counter()
        head_is_of_a_row = any(name in type(model).__name__ for name in OF_A_ROW)
        base = f"{getattr(model, 'base_model_prefix', '')}."
        for name, module in model.named_modules():
            if (weight := _weight_of_product(module)) is not None:
                is_of_a_row = "pooler" in name or (head_is_of_a_row and not name.startswith(base))
                by_weight = FORWARD + BACKWARD_TO_INPUTS + BACKWARD_TO_WEIGHTS * bool(weight.requires_grad)
                times = self._times_used(name)
                self._of_weights["row" if is_of_a_row else self._seen_by(name)] += (
                    by_weight * math.prod(weight.shape) * times
                )
        self._of_attention = self._attention()

    def of(self, inputs: np.ndarray, decoded: np.ndarray) -> float:
        """What forward and backward of rows take.

        Args:
            inputs: Tokens of each row, padding not counted; integers of shape (rows,).
            decoded: The same of what an encoder-decoder writes; of other models empty.
        """
        weights, attention = self._of_weights, self._of_attention
        inputs, decoded = inputs.astype(np.float64), decoded.astype(np.float64)
        flops = weights["row"] * len(inputs) + weights["inputs"] * inputs.sum() + weights["decoded"] * decoded.sum()
        flops += attention["inputs"] * np.square(inputs).sum()
        if len(decoded):
            flops += attention["decoded"] * (np.square(decoded).sum() + (inputs * decoded).sum())
        return float(flops)

    def _seen_by(self, name):
        """Whose tokens a module of this name sees."""
        parts = name.split(".")
        if not self.is_encoder_decoder or "encoder" in parts:
            return "inputs"
        is_of_encoder = parts[-1] in KEYS_AND_VALUES and any(part in CROSS_ATTENTION for part in parts)
        return "inputs" if is_of_encoder else "decoded"

    def _times_used(self, name):
        config = self._config
        if "albert_layer_groups" in name:
            return config.num_hidden_layers / config.num_hidden_groups
        if "experts" in name.split("."):
            names = ("num_local_experts", "n_routed_experts", "num_experts")
            num_experts = next((getattr(config, name) for name in names if hasattr(config, name)), 1)
            return (getattr(config, "num_experts_per_tok", None) or 1) / num_experts
        return 1

    def _attention(self):
        """For the square of a length: layers times what attention computes in."""
        config = self._config
        sizes = [getattr(config, name, None) for name in ("num_attention_heads", "hidden_size", "num_hidden_layers")]
        if not all(isinstance(size, int) for size in sizes):  # images' models may have one for each stage
            return Counter()
        heads, width, layers = sizes
        of_head = getattr(config, "head_dim", None) or getattr(config, "d_kv", None) or width // heads
        layers *= getattr(config, "inner_group_num", 1)
        encoder = getattr(config, "encoder_layers", layers)
        decoder = getattr(config, "decoder_layers", None) or getattr(config, "num_decoder_layers", None) or layers
        of_layer = ATTENTION * heads * of_head
        return Counter(inputs=of_layer * encoder, decoded=of_layer * decoder if self.is_encoder_decoder else 0)


def _weight_of_product(module):
    """That of a linear layer, or of a convolution that GPT-2 takes for one; None if it has none."""
    weight = getattr(module, "_parameters", {}).get("weight")
    is_matrix = weight is not None and weight.ndim == 2 and "Embedding" not in type(module).__name__
    return weight if is_matrix else None
