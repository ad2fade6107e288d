"""Pieces of the scripts that ``mindnlp-dp run`` starts here."""

SLEEP = "time.sleep(600)\n"  # longer than a test waits for the end
READY = "open(os.path.join(os.environ['FOLDER'], f'ready_{rank}'), 'w').close()\n"
FAILED = "open(os.path.join(os.environ['FOLDER'], 'failed_at'), 'w').write(repr(time.time()))\n"
STUBBORN = "for signum in (2, 10, 15): signal.signal(signum, signal.SIG_IGN)\n"
# 2 on an idle machine. Ranks that are asked to end have 30 seconds: who waited for them so long would be seen.
PROMPTLY_S = 25


def until_exists(*names):
    """Waits for files in the log directory."""
    return "".join(
        f"while not os.path.exists(os.path.join(os.environ['FOLDER'], {name!r})): time.sleep(0.01)\n" for name in names
    )


def once_all_are_ready(rank, statement, num_ranks=2):
    """One rank does something when all have begun, and has noted the time; the others sleep."""
    all_ready = until_exists(*(f"ready_{each}" for each in range(num_ranks)))
    body = "".join(f"    {line}\n" for line in f"{all_ready}{FAILED}{statement}".splitlines())
    return f"{READY}if rank == {rank}:\n{body}{SLEEP}"
