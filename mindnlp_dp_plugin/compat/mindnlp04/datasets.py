"""Reading data sets."""

import functools
import os

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindnlp.dataset.load",
    bridges="load_dataset of a folder with an absolute path: the cache is written into that folder, and the next call "
    "reads it as data",
    obsolete_when="mindnlp.dataset.load_dataset joins no absolute path to the root of its cache",
)
def cache_apart_from_the_data(load):
    stock = load.load_dataset

    @functools.wraps(stock)
    def load_dataset(path, name=None, data_dir=None, data_files=None, split=None, cache_dir=None, *args, **kwargs):
        if cache_dir is None and os.path.isabs(path):
            cache_dir = os.path.join(load.DEFAULT_ROOT, "datasets", path.lstrip(os.sep))
        return stock(path, name, data_dir, data_files, split, cache_dir, *args, **kwargs)

    load.load_dataset = load_dataset
