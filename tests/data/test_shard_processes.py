import sys

from tests.harness import run


def test_by_batch_gives_every_process_the_same_order(tmp_path):
    program = tmp_path / "order.py"
    program.write_text(
        "import sys, mindspore; mindspore.set_seed(int(sys.argv[1]))\n"
        "from tests.data.test_shard import BY_BATCH, all_ranks\n"
        "KINDS = ('generator function', 'weighted', 'filter', 'iterable sampler')\n"
        "print([all_ranks(BY_BATCH[kind]().batch(2), 2) for kind in KINDS])\n"
    )
    first, second = (run([sys.executable, program, seed]) for seed in (1, 2))
    assert first.returncode == second.returncode == 0, first.stderr
    assert first.stdout.splitlines()[-1] == second.stdout.splitlines()[-1]
