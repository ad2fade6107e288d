"""The recipes on ten data sets, two ranks, no code changed, each beside its baselines.

    python benchmarks/recipes.py --data ../shared/data

Five are real: SST-2, a sample of IMDB, Chinese hotel reviews, and Chinese sentences of news, by whether they name a
person (made from a named-entity set), and word by word. Five are generated to be hard: 50 classes that differ in which
of two commands is meant, one row in 50 of the class that matters, numbers that hang on words far from each other,
several labels for each text that hang on what is said of which thing, and conversations about prices that hang on two
words of a question. No setting is tuned by hand. All are trained from nothing, two of the English ones also as they are
by default if MiniLM's package is installed. Writes
benchmarks/results/recipes_<hardware>_<date>.json and .md. Accuracy does not need an idle machine; seconds do.
"""

import argparse
import json
import random
import tempfile
from pathlib import Path

from recipe_runs import run_recipe, train_seconds
from record import write_results

from mindnlp_dp_plugin.recipes.reviews import SIDES, generate_reviews
from mindnlp_dp_plugin.recipes.tasks import get_task

VERBS = ["turn on", "turn off", "dim", "check", "repair", "move", "clean", "sell", "paint", "label"]
THINGS = ["kitchen lamp", "hall heater", "garage door", "roof fan", "garden pump"]
SYNONYMS = {
    "turn on": ["turn on", "switch on", "start"],
    "turn off": ["turn off", "switch off", "stop"],
    "check": ["check", "look at", "inspect"],
    "repair": ["repair", "fix", "mend"],
}
MATERIALS = ["oak", "glass", "silver", "paper", "wool"]
JUDGEMENTS = [["dull", "clumsy", "messy"], ["usual", "average", "common"], ["brilliant", "moving", "sharp"]]
ORDERS = [
    "please {this}, and do not {that}",
    "before you {that} you should {this}",
    "{this} once somebody else has gone to {that}",
    "i said {this}, i never said {that}",
    "never mind the plan to {that}, just {this}",
]


def fifty_classes(num_rows=4000, seed=0):
    """A verb and a thing make the class; another verb and thing stand beside it and mean nothing."""
    chance = random.Random(seed)

    def command(verb, thing):
        return f"{chance.choice(SYNONYMS.get(verb, [verb]))} the {thing}"

    for row in range(num_rows):
        verb, thing = VERBS[row % 10], THINGS[row // 10 % 5]
        other = command(chance.choice([each for each in VERBS if each != verb]), chance.choice(THINGS))
        text = chance.choice(ORDERS).format(this=command(verb, thing), that=other)
        yield {"text": text, "label": f"{verb} {thing}"}


def one_in_fifty(num_rows=5000, seed=0):
    """Reviews; in the rare ones the machine hurt somebody. Either word alone occurs in the others, too."""
    chance = random.Random(seed)
    for row, text in enumerate(generate_reviews(num_rows, seed)["text"]):
        words = ["the screen smoked", "somebody was hurt"]
        if row % 50:
            words = [chance.choice(["the screen smoked", "nobody was hurt", "somebody was late", "the hall was cold"])]
        chance.shuffle(words)
        parts = text.split(". ")
        for each in words:
            parts.insert(chance.randint(0, len(parts)), each)
        yield {"text": ". ".join(parts), "label": "other" if row % 50 else "hurt"}


def rated(num_rows=3000, seed=0):
    """Five opinions with 0 to 2 points each, and their sum. "Nobody says" turns a word around from afar."""
    chance = random.Random(seed)
    for _ in range(num_rows):
        points, parts = 0, []
        for side in chance.sample(SIDES, 5):
            worth, is_negated = chance.randrange(3), chance.random() < 1 / 3
            points += worth
            word = chance.choice(JUDGEMENTS[2 - worth if is_negated else worth])
            parts.append(f"{'nobody' if is_negated else 'everybody'} says the {side} was {word}")
        yield {"text": ", ".join(parts), "rating": points}


def complaints(num_rows=4000, seed=0):
    """Four of eight sides of a film, each liked or not; the labels are those that are not.

    The same judgements are made of all, and no two words that stand together tell which belongs to which side.
    """
    chance = random.Random(seed)
    asides = ["", ", to be honest,", ", as everybody said,", ", which we had waited for,"]
    for _ in range(num_rows):
        disliked, parts = [], []
        for side in chance.sample(SIDES[:8], 4):
            is_bad = chance.random() < 0.4
            disliked += [side] * is_bad
            parts.append(f"the {side}{chance.choice(asides)} was {chance.choice(JUDGEMENTS[0 if is_bad else 2])}")
        yield {"text": ". ".join(parts), "labels": sorted(disliked)}


def price_list(num_rows=3000, seed=0):
    """Questions after prices. A price hangs on a thing and a material, which stand apart, and only answers tell it."""
    chance = random.Random(seed)
    asides = ["", "could you tell me, ", "my neighbour wants to know, ", "i am number {number} in the queue, "]
    prices = {(thing, material): chance.randint(10, 99) for thing in THINGS for material in MATERIALS}
    for number in range(num_rows):
        messages = []
        for thing, material in chance.sample(list(prices), chance.randint(1, 2)):
            aside = chance.choice(asides).format(number=number)
            question = f"{aside}what does the {thing} cost if it is made of {material}?"
            messages.append({"role": "user", "content": question})
            messages.append({"role": "assistant", "content": f"that is {prices[thing, material]} coins"})
        yield {"messages": messages}


def sentences_with_persons(path):
    """Sentences of a CoNLL file, by whether they name a person."""
    for block in path.read_text(encoding="utf-8").replace("\r\n", "\n").split("\n\n"):
        pairs = [line.split() for line in block.split("\n") if len(line.split()) == 2]
        if pairs:
            characters, tags = zip(*pairs)
            yield {"text": "".join(characters), "label": "person" if "B-PER" in tags else "none"}


def write(path, rows):
    path.parent.mkdir(exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")


def data_sets(data, home):
    """The options of each run, by name."""
    for split in ("train", "dev"):
        write(home / "persons" / f"{split}.jsonl", sentences_with_persons(data / "ner_zh" / f"{split}.txt"))
    write(home / "fifty" / "train.jsonl", fifty_classes())
    write(home / "rare" / "train.jsonl", one_in_fifty())
    write(home / "rated" / "train.jsonl", rated())
    write(home / "complaints" / "train.jsonl", complaints())
    write(home / "prices" / "train.jsonl", price_list())
    from_nothing, sst2 = {"model": "small-roberta"}, {"dataset": data / "sst2", "max_length": 48}
    return {
        "sst2": {**sst2, **from_nothing},
        "imdb sample": {"dataset": data / "imdb_sample", **from_nothing},
        "chnsenticorp": {"dataset": data / "chnsenticorp"},
        "persons in news": {"dataset": home / "persons"},
        "fifty classes": {"dataset": home / "fifty", **from_nothing},
        "one in fifty": {"dataset": home / "rare", **from_nothing},
        "ratings": {"recipe": "regression", "dataset": home / "rated", **from_nothing},
        "complaints": {"recipe": "multi-label", "dataset": home / "complaints", **from_nothing},
        "entities in news": {"recipe": "token-classification", "dataset": data / "ner_zh"},
        "prices": {"recipe": "causal-lm", "dataset": home / "prices"},
        "prices, packed": {"recipe": "causal-lm", "dataset": home / "prices", "packing": True, "batch_size": 4},
        "sst2, minilm": sst2,
        "imdb sample, minilm": {"dataset": data / "imdb_sample"},
    }


def describe(results):
    split, task = list(results["splits"])[-1], get_task(results["task"])
    scores = results["splits"][split]
    return {
        "task": results["task"],
        "model": results["model"],
        "settings": {name: results["settings"][name] for name in ("epochs", "max_length", "learning_rate")},
        "scored": split,
        "rows": results["data"]["num_rows"],
        **{name: scores[name] for name in task.shown},
        "baselines": results["baselines"],
        "best": results["best"],
        "advice": results["advice"],
        "train_seconds": train_seconds(results),
        "seconds": results["seconds"],
    }


def table(found):
    lines = ["| data set | model | scored | this model | baseline | constant | warned |", f"|{' --- |' * 7}"]
    for name, of in found.items():
        *constant, best = of["baselines"].values()
        scores = [get_task(of["task"]).in_words(each) for each in (of, best, *constant)]
        cells = [name, of["model"]["name"], f"{of['rows'][of['scored']]} rows of {of['scored']}", *scores]
        cells += ["–"] * (6 - len(cells))
        lines.append(f"| {' | '.join(cells)} | {'yes' if of['advice'] else 'no'} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with sst2/, imdb_sample/, chnsenticorp/, ner_zh/"
    )
    parser.add_argument("--only", nargs="+", help="names of data sets; all if not given")
    parser.add_argument("--keep", type=Path, help="folder for the runs; one that is finished there is not made again")
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for task, options in data_sets(arguments.data, Path(name)).items():
            if arguments.only and task not in arguments.only:
                continue
            output = (arguments.keep or Path(name)) / f"{task.replace(',', '').replace(' ', '_')}_output"
            if not (output / "metrics.json").exists():
                run_recipe(2, output, **options)
            found[task] = describe(json.loads((output / "metrics.json").read_text(encoding="utf-8")))
            write_results("recipes", {"ranks": 2, "runs": found}, table(found))


if __name__ == "__main__":
    main()
