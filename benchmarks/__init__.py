"""Measurements. They read what commands say, so these speak English."""

import os

os.environ["MINDNLP_DP_LANG"] = "en"
