"""Check that the hub has a model, before any rank starts and without importing MindNLP."""

import os
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.request import urlopen

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr

TIMEOUT_S = 8
# What MindNLP's names stand for, of each the place of a model's config; a test compares them with its own table.
MIRRORS = {
    "huggingface": "{endpoint}/{model}/resolve/main/config.json?download=true",
    "modelscope": "https://modelscope.cn/api/v1/models/{model}/repo?Revision=master&FilePath=config.json",
    "wisemodel": "https://awsdownload.wisemodel.cn/file-proxy/{model}/-/raw/main/config.json",
    "gitee": "https://ai.gitee.com/huggingface/{model}/resolve/main/config.json",
    "aifast": "https://aifasthub.com/models/{model}/config.json",
    "modelers": "https://modelers.cn/coderepo/web/v1/file/{model}/main/media/config.json",
}
OTHER_NAMES = {"hf-mirror": "huggingface"}  # the default of HF_ENDPOINT


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
    name = OTHER_NAMES.get(mirror, mirror)
    if name not in MIRRORS:
        raise DataParallelError(
            "--mirror {mirror!r} is not known: give a URL, or one of {known}.",
            mirror=mirror,
            known=", ".join([*OTHER_NAMES, *MIRRORS]),
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
    endpoint = os.environ.get("HF_ENDPOINT", "https://hf-mirror.com")
    address = MIRRORS[mirror or "huggingface"].format(model=model, endpoint=endpoint)
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
