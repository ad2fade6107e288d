import mindnlp_dp_plugin as dp  # isort: skip

import pytest

from mindnlp_dp_plugin.cpu_operators.routes import routes


@pytest.fixture(scope="package")
def stock():
    """MindNLP's own operators by name, with none of the plugin's in their place."""
    dp.uninstall()
    yield {name: getattr(owner, name) for owner, name, _ in routes()}
    dp.install()
