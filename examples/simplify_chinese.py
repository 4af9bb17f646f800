"""Convert traditional to simplified Chinese in one column of a TSV file.

    python examples/simplify_chinese.py train.tsv.gz --column 1 > train.zh.tsv

Needs OpenCC in Python:  pip install opencc-python-reimplemented
"""

from __future__ import annotations

import argparse
import importlib
import sys

from regard.text import read_lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", help="a TSV file, compressed or not, or - for standard input")
    parser.add_argument(
        "--column", type=int, default=1, help="the index of the Chinese column, from 0 (default 1)"
    )
    options = parser.parse_args()
    try:
        opencc = importlib.import_module("opencc")
    except ImportError:
        sys.exit("this needs OpenCC: install it with  pip install opencc-python-reimplemented")
    simplify = opencc.OpenCC("t2s").convert
    for line in read_lines(options.file):
        columns = line.split("\t")
        if options.column < len(columns):
            columns[options.column] = simplify(columns[options.column])
        print("\t".join(columns))


if __name__ == "__main__":
    main()
