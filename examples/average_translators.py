"""Average the weights of two translators, of which one was trained from the other.

    python examples/average_translators.py en-fr runs/further --share 0.5 --out averaged

Training further on other sentences makes a translator better at these and often worse at the first ones. The mean of
the weights before and after is often better at both (Wortsman et al. 2022, arXiv 2109.01903).
"""

from __future__ import annotations

import argparse

from regard.tasks.translate import Translator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("before", help="the translator that the training started from: a name or a folder")
    parser.add_argument("after", help="the translator after the training")
    parser.add_argument("--share", type=float, default=0.5, help="the share of the second one (default 0.5)")
    parser.add_argument("--out", required=True, help="a new folder")
    options = parser.parse_args()
    before, after = Translator.load(options.before), Translator.load(options.after)
    if before.source.to_json() != after.source.to_json():
        parser.error("the two translators have different vocabularies, so neither was trained from the other")
    old, new = before.model.state_dict(), after.model.state_dict()
    mixed = {name: old[name].lerp(new[name], options.share) for name in new}
    after.model.load_state_dict(mixed)
    after.save(options.out)
    print(f"the averaged translator is in {options.out}")


if __name__ == "__main__":
    main()
