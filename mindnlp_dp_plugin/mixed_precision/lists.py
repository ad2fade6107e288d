"""Which operator computes in which precision: the lists that torch publishes for its autocast on CUDA.

Source: "CUDA Op-Specific Behavior" in the documentation of ``torch.amp``. An operator in no list computes in what its
inputs are; MindSpore, as torch, promotes where they differ.
"""

# Products: fast in half precision, and their sums are kept in float32 by the device.
HALF = (
    *("linear", "scaled_dot_product_attention", "prelu"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("matmul", "__matmul__", "mm", "mv", "bmm", "addmm", "addbmm", "baddbmm", "einsum"),
)

# Exponentials, norms, losses and sums: they need float32's range or its digits.
FLOAT32 = (
    *("softmax", "log_softmax", "softplus", "layer_norm", "group_norm", "rms_norm", "normalize", "cosine_similarity"),
    *("cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss", "smooth_l1_loss"),
    *("kl_div", "ctc_loss"),
    *("exp", "expm1", "log", "log10", "log1p", "log2", "pow", "__pow__", "__rpow__", "reciprocal", "rsqrt"),
    *("acos", "asin", "cosh", "sinh", "tan", "erfinv", "__rtruediv__"),
    *("sum", "prod", "cumsum", "cumprod", "norm", "cdist", "logsumexp"),
)

# The widest of the inputs: MindSpore has no operator for a mixture of these.
WIDEST = ("cat", "concat", "stack", "addcdiv", "addcmul", "scatter_add", "dot")
