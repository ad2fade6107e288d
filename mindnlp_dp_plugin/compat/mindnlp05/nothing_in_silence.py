"""What does nothing in ``mindtorch``, and says nothing, or fails far from its cause: it is refused by name."""

import functools

from mindnlp_dp_plugin.compat.patch import patch
from mindnlp_dp_plugin.errors import DataParallelError


@patch(
    module="mindtorch",
    bridges="loops of one's own and Accelerator.backward: loss.backward() returns, and no parameter has a gradient; "
    "and training again in a notebook: after a gradient that failed those of parameters that are made later are 0",
    obsolete_when="mindtorch's Tensor.backward computes gradients",
)
def backward_without_gradients(mindtorch):
    import mindspore

    function, num_running = mindtorch.autograd.function, 0
    stock = function.value_and_grad

    def value_and_grad(fn, *args, **kwargs):
        def counted(*inputs, **named):
            nonlocal num_running
            num_running += 1
            try:
                return fn(*inputs, **named)
            finally:
                num_running -= 1

        gradients = stock(counted, *args, **kwargs)

        @functools.wraps(gradients)
        def ended(*inputs, **named):
            try:
                return gradients(*inputs, **named)
            except BaseException:
                function._pynative_executor.clear_res()
                raise

        return ended

    def backward(self, *args, **kwargs):
        if num_running:  # MindNLP's own training_step calls it there
            return self
        raise DataParallelError(
            "loss.backward() computes no gradients in MindNLP 0.5. Train with transformers.Trainer, or compute them by "
            "mindtorch.autograd.value_and_grad(fn, parameters)."
        )

    function.value_and_grad = value_and_grad
    if getattr(mindtorch.autograd, "value_and_grad", None) is stock:
        mindtorch.autograd.value_and_grad = value_and_grad
    if getattr(mindtorch, "value_and_grad", None) is stock:
        mindtorch.value_and_grad = value_and_grad
    mindspore.Tensor.backward = backward


@patch(
    module="mindtorch.utils.checkpoint",
    bridges="gradient_checkpointing=True: nothing is computed again, and memory is what it was",
    obsolete_when="mindtorch.utils.checkpoint.checkpoint drops what it computed",
)
def checkpoint_that_keeps_all(checkpointing):
    def checkpoint(function, *args, **kwargs):
        raise DataParallelError(
            "gradient_checkpointing=True saves no memory in MindNLP 0.5, which recomputes nothing. Leave it out, or "
            "use a smaller per_device_train_batch_size and more gradient_accumulation_steps."
        )

    checkpointing.checkpoint = checkpoint


@patch(
    module="mindtorch.amp.autocast_mode",
    bridges="fp16=True on a CPU: all is computed in float32; with bf16=True MindSpore has no kernels",
    obsolete_when="mindtorch's operators for CPU ask whether autocast is on",
)
def half_precision_on_cpu(autocast_mode):
    import mindspore

    stock = autocast_mode.autocast.__init__

    def __init__(self, device_type, dtype=None, enabled=True, *args, **kwargs):
        if enabled and mindspore.get_context("device_target") == "CPU":
            raise _no_half_precision()
        stock(self, device_type, dtype, enabled, *args, **kwargs)

    autocast_mode.autocast.__init__ = __init__


@patch(
    module="transformers.training_args",
    bridges="fp16=True on a CPU where a Trainer was made before: accelerate keeps the first one's precision, unasked",
    obsolete_when="mindtorch's operators for CPU ask whether autocast is on",
)
def half_precision_of_the_trainer(training_args):
    import mindspore

    def check(arguments):
        if (arguments.fp16 or arguments.bf16) and mindspore.get_context("device_target") == "CPU":
            raise _no_half_precision()

    _check_first(training_args, check)


@patch(
    module="transformers.training_args",
    bridges="fsdp and deepspeed: accelerate asks for modules that mindtorch has not, for the next Trainer, too",
    obsolete_when="mindtorch.distributed.fsdp shards a model",
)
def engines_of_torch(training_args):
    def check(arguments):
        for name in ("fsdp", "deepspeed"):
            if value := getattr(arguments, name):
                raise DataParallelError(
                    "{name}={value!r}: MindNLP 0.5 has no such engine. Leave it out: each rank holds the whole model.",
                    name=name,
                    value=value,
                )

    _check_first(training_args, check)


@patch(
    module="transformers.training_args",
    bridges="torch_compile=True: all gradients are 0, and nothing is trained, by the next Trainers, too",
    obsolete_when="a model that mindtorch.compile returns has gradients within accelerate",
)
def compiled_models(training_args):
    def check(arguments):
        if arguments.torch_compile or arguments.torch_compile_backend or arguments.torch_compile_mode:
            raise DataParallelError("torch_compile=True: MindNLP 0.5 computes no gradients with it. Leave it out.")

    _check_first(training_args, check)


@patch(
    module="mindtorch.optim.adam",
    bridges="optim='adamw_torch_fused': mindtorch has fused steps for no device",
    obsolete_when="mindtorch's Adam steps with fused=True",
)
def fused_steps(adam):
    stock = adam.Adam.__init__

    @functools.wraps(stock)
    def __init__(self, *args, fused=None, **kwargs):
        if fused:
            raise DataParallelError("fused=True: MindNLP 0.5 has no fused optimizers. Use optim='adamw_torch'.")
        stock(self, *args, fused=fused, **kwargs)

    adam.Adam.__init__ = __init__


@patch(
    module="mindtorch.utils.data.dataloader",
    bridges="dataloader_num_workers above 0: mindtorch.multiprocessing has no processes",
    obsolete_when="mindtorch.multiprocessing starts processes",
)
def workers_of_a_data_loader(dataloader):
    def __init__(self, loader):
        self._shutdown = True  # asked for when it is deleted
        raise DataParallelError(
            "dataloader_num_workers={number}: MindNLP 0.5 cannot start workers. Leave it at 0.",
            number=loader.num_workers,
        )

    dataloader._MultiProcessingDataLoaderIter.__init__ = __init__


def _check_first(training_args, check):
    """Let arguments be checked before transformers makes anything of them."""
    stock = training_args.TrainingArguments.__post_init__

    def __post_init__(self):
        check(self)
        stock(self)

    training_args.TrainingArguments.__post_init__ = __post_init__


def _no_half_precision():
    return DataParallelError(
        "fp16=True or bf16=True on a CPU: MindNLP 0.5 computes in float32 there, whatever you set. Leave it out."
    )
