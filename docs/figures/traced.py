"""A BERT of 4 layers, traced for the figure of a step.

mindnlp-dp run --nproc 2 --profile docs/figures/traced.py
"""

import mindspore
import numpy as np
from mindnlp.engine import Trainer, TrainingArguments
from mindnlp.transformers import BertConfig, BertForSequenceClassification
from mindspore.dataset import GeneratorDataset

chance = np.random.default_rng(0)
rows = [(chance.integers(0, 8000, 64).astype(np.int32), np.int32(chance.integers(2))) for _ in range(128)]
sizes = dict(vocab_size=8000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)
mindspore.set_seed(1)
arguments = TrainingArguments(output_dir="traced_output", max_steps=8, save_strategy="no", disable_tqdm=True)
dataset = GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(8)
Trainer(BertForSequenceClassification(BertConfig(**sizes)), arguments, train_dataset=dataset).train()
