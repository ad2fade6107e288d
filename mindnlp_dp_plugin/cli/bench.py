"""``mindnlp-dp bench``: how fast are N ranks?"""

import click

from mindnlp_dp_plugin.cli import launching
from mindnlp_dp_plugin.doctor import engines
from mindnlp_dp_plugin.launch import backends

MODULE = "mindnlp_dp_plugin.bench.on_ranks"


@click.command(cls=launching.OnThisNode)
@launching.nproc(required=True)
@launching.backend
@launching.log_dir
def bench(nproc, backend, log_dir):
    """Time all-reduces of 1 KB to 64 MB over each installed engine.

    Prints latency and bandwidth between ranks, the bucket_cap_mb that suits them, and how much of the work of N devices
    N ranks would do. Leave the machine idle meanwhile.
    """
    for engine in engines.to_try() if backend == "auto" else [backends.choose(backend)]:
        click.echo(f"{engine}:")
        status = launching.start([MODULE], nproc, engine, log_dir / engine)
        if status:
            return status
    return 0
