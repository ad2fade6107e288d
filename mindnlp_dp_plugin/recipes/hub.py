"""Check that the hub has a model, before any rank starts and without importing MindNLP."""

import ast
import os
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.request import urlopen

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr

TIMEOUT_S = 8
# Names that people know, beside MindNLP's own: its "huggingface" is $HF_ENDPOINT, and that by default hf-mirror.
OTHER_NAMES = {"hf-mirror": "huggingface"}
IN_MINDNLP = {"configs.py": ("HF_ENDPOINT", "HF_URL_BASE", "MS_URL_BASE"), "utils/download.py": ("MIRROR_MAP",)}


def use_mirror(mirror: str | None) -> str | None:
    """Make MindNLP, in this process and its children, take models from a mirror.

    Args:
        mirror: One of MindNLP's names, hf-mirror, or a URL.

    Returns:
        MindNLP's name for it; None for its default.

    Raises:
        DataParallelError: If the name is not known.
    """
    if mirror is None:
        return None
    if mirror.startswith(("http://", "https://")):
        os.environ["HF_ENDPOINT"] = mirror.rstrip("/")  # MindNLP makes its addresses from it
        return None
    known = _mirrors()
    name = OTHER_NAMES.get(mirror, mirror)
    if name not in known:
        raise DataParallelError(
            "--mirror {mirror!r} is not known: give a URL, or one of {known}.",
            mirror=mirror,
            known=", ".join([*OTHER_NAMES, *known]),
        )
    return name


def require_reachable(model: str, mirror: str | None) -> None:
    """Make sure that the hub has a model, unless MindNLP has it in its cache.

    Args:
        model: Its name.
        mirror: MindNLP's name of the mirror; None for its default.

    Raises:
        DataParallelError: If the hub does not have it, or does not answer within eight seconds.
    """
    cache = Path(os.environ.get("MINDNLP_CACHE", Path.cwd() / ".mindnlp"))
    if (cache / "model" / model / "config.json").exists():
        return
    address = _mirrors()[mirror or "huggingface"]
    revision = ["master" if mirror == "modelscope" else "main"] * (address.count("{}") == 3)
    address = address.format(model, *revision, "config.json")
    reason = reason_not_to_get(address)
    if reason is not None:
        raise DataParallelError(
            "--model {model!r} is not a folder here, and {place} does not give it ({reason}): check the name and the "
            "network, give another --mirror, a model folder, or leave out --model.",
            model=model,
            place=address.split("/")[2],
            reason=reason,
        )


def reason_not_to_get(address: str):
    """None if an address answers within eight seconds; if not, the status, or words of what went wrong."""
    found = [tr("no answer")]

    def ask():
        try:
            with urlopen(address, timeout=TIMEOUT_S):
                found[0] = None
        except HTTPError as error:
            found[0] = error.code
        except (OSError, ValueError) as error:
            found[0] = getattr(error, "reason", None) or error

    asking = Thread(target=ask, daemon=True)  # looking up a name knows no timeout
    asking.start()
    asking.join(TIMEOUT_S + 1)
    return found[0]


def _mirrors():
    """MindNLP's table of mirrors, from its source: importing it takes seconds, and MindSpore."""
    home = Path(find_spec("mindnlp").origin).parent
    values = {"os": os}
    for file, names in IN_MINDNLP.items():
        for node in ast.parse((home / file).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and node.targets[0].id in names:
                values[node.targets[0].id] = eval(compile(ast.Expression(node.value), file, "eval"), values)
    return values["MIRROR_MAP"]
