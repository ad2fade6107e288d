"""The course's RoBERTa script as its students run it: typing mistakes mended, data and model local, else untouched.

python course_roberta.py MODEL_FOLDER TRAIN_CSV TEST_CSV
"""

import sys

import mindspore.dataset as ds
from mindnlp.dataset import load_dataset

# loading dataset
imdb_ds = load_dataset("csv", data_files={"train": sys.argv[2], "test": sys.argv[3]}, split=["train", "test"])
imdb_train = imdb_ds["train"]
imdb_test = imdb_ds["test"]
imdb_train.get_dataset_size()

import numpy as np


def process_dataset(dataset, tokenizer, max_seq_len=512, batch_size=4, shuffle=False):
    is_ascend = mindspore.get_context("device_target") == "Ascend"

    def tokenize(text):
        if is_ascend:
            tokenized = tokenizer(text, padding="max_length", truncation=True, max_length=max_seq_len)
        else:
            tokenized = tokenizer(text, truncation=True, max_length=max_seq_len)
        return tokenized["input_ids"], tokenized["attention_mask"]

    if shuffle:
        dataset = dataset.shuffle(batch_size)
    # map dataset
    dataset = dataset.map(operations=[tokenize], input_columns="text", output_columns=["input_ids", "attention_mask"])
    dataset = dataset.map(
        operations=transforms.TypeCast(mindspore.int32), input_columns="label", output_columns="labels"
    )
    # batch dataset
    if is_ascend:
        dataset = dataset.batch(batch_size)
    else:
        dataset = dataset.padded_batch(
            batch_size, pad_info={"input_ids": (None, tokenizer.pad_token_id), "attention_mask": (None, 0)}
        )
    return dataset


from mindnlp.transformers import AutoTokenizer
import mindspore
import mindspore.dataset.transforms as transforms

# tokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
dataset_train = process_dataset(imdb_train, tokenizer, shuffle=True)

from mindnlp.transformers import AutoModelForSequenceClassification

# set bert config and define parameters for training
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1], num_labels=2)

from mindnlp.engine import TrainingArguments

training_args = TrainingArguments(
    output_dir="./", save_strategy="epoch", logging_strategy="epoch", num_train_epochs=3, learning_rate=2e-5
)
training_args = training_args.set_optimizer(name="adamw", beta1=0.8)

from mindnlp.engine import Trainer

trainer = Trainer(model=model, args=training_args, train_dataset=dataset_train)

print("start training")
trainer.train()
