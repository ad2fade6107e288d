"""The peer: a tiny BERT under torchrun, which saves after each step and goes on from there when torchrun restarts it.

    torchrun --nproc-per-node 2 --max-restarts 20 torch_elastic.py OUTPUT MAX_STEPS KILL_AT...

Rank 1 kills itself in the steps KILL_AT, once each. Rank 0 adds a line to ``OUTPUT/starts`` when the first step of a
start begins, rank 1 one to ``OUTPUT/kills``: the time, and how many steps are done. ``OUTPUT/tries`` gets a line each
time that the ranks are started. Needs torch and transformers.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, BertForSequenceClassification

OUTPUT, MAX_STEPS, *KILL_AT = Path(sys.argv[1]), *map(int, sys.argv[2:])
RANK = int(os.environ["RANK"])
STEP_S = 0.3


def note(name, step):
    with (OUTPUT / name).open("a") as lines:
        lines.write(f"{time.time()} {step}\n")


os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[RANK]})
torch.set_num_threads(1)
if RANK == 0:
    note("tries", os.environ["TORCHELASTIC_RESTART_COUNT"])
torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
config = BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=100)
model = DistributedDataParallel(BertForSequenceClassification(config))
optimizer = torch.optim.AdamW(model.parameters())
saved = OUTPUT / "saved.pt"
step = 0
if saved.exists():
    state = torch.load(saved)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
if RANK == 0:
    note("starts", step)
while step < MAX_STEPS:
    if RANK == 1 and step in KILL_AT and not (OUTPUT / f"killed_{step}").exists():
        (OUTPUT / f"killed_{step}").touch()
        time.sleep(STEP_S / 2)
        note("kills", step)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(STEP_S)
    ids = torch.randint(4, 100, (4, 12))
    model(input_ids=ids, labels=torch.zeros(4, dtype=torch.long)).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    if RANK == 0:
        whole = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(whole, OUTPUT / "saving.pt")
        (OUTPUT / "saving.pt").rename(saved)
torch.distributed.destroy_process_group()
