"""Train, and save into a folder that has no room for it.

python full_disk.py FOLDER
"""

import sys

from tests.programs.tiny import tiny_trainer

tiny_trainer(sys.argv[1], save_strategy="steps", save_steps=1).train()
