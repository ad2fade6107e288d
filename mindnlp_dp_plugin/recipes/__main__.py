"""What each rank of a recipe runs: ``-m mindnlp_dp_plugin.recipes train TASK OPTIONS``, or ``predict REQUEST``."""

import sys

from mindnlp_dp_plugin.recipes import quiet


def main() -> None:
    """Run the recipe that the command line names."""
    quiet.begin()
    _, what, name, *arguments = sys.argv
    if what == "train":
        from mindnlp_dp_plugin.recipes.options import RecipeOptions, parse
        from mindnlp_dp_plugin.recipes.training import train

        sys.argv = [sys.argv[0], *arguments]
        train(parse("", RecipeOptions()), name)
    else:
        from mindnlp_dp_plugin.recipes.prediction import answer

        answer(name)


main()
