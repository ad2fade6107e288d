"""Train low-rank adapters in place of all parameters, and load them again.

    mindnlp-dp run --nproc 2 lora.py

Only the adapters and the classifier get gradients, so only they travel between the ranks.
"""

import mindnlp_dp_plugin as dp  # isort: skip  (first: makes MindNLP importable and joins the other ranks)

from common import batches, small_model
from mindnlp.engine import Trainer, TrainingArguments
from mindnlp.peft import LoraConfig, PeftModel, TaskType, get_peft_model

model = get_peft_model(small_model(), LoraConfig(task_type=TaskType.SEQ_CLS, r=8, lora_alpha=16))
arguments = TrainingArguments(output_dir="lora_output", max_steps=8, learning_rate=3e-3, disable_tqdm=True)
trainer = Trainer(model=model, args=arguments, train_dataset=batches("train"))
trainer.train()
trainer.save_model("lora_output/adapter")  # the adapter alone, not the model below it

dp.barrier()  # rank 0 writes the adapter; the others wait before they read it
loaded = PeftModel.from_pretrained(small_model(), "lora_output/adapter")
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
dp.print_rank_0(f"trained {len(trained)} of {len(list(model.parameters()))} parameters and loaded the adapter")
