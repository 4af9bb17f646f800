"""Compare captured weights of models from many libraries with weights that were computed without Regard.

python benchmarks/capture_zoo.py                        all models; exit code 1 if one is wrong or missed
python benchmarks/capture_zoo.py --list                 their names
python benchmarks/capture_zoo.py --only llama           those whose name contains "llama"
python benchmarks/capture_zoo.py --family by-hand       one family
python benchmarks/capture_zoo.py --packages ~/zoo       install what is missing (timm, x-transformers, ...) there

A model is **right** if its maps have the numbers, the axes and the kind of the truth and its output is the same as
without a capture. It is **refused** if an error or a warning names the attention that was not recorded, **missed** if
attention was left out without a warning, and **wrong** otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from zoo import by_hand, huggingface, other_forms, timm_models, vit_pytorch_models, x_transformers_models
from zoo.judging import ABSENT, MISSED, VERDICTS, WRONG, Absent, Case, Result, judge
from zoo.packages import install_missing

FAMILIES = {
    "by-hand": by_hand.cases,
    "huggingface": huggingface.cases,
    "other-forms": other_forms.cases,
    "timm": timm_models.cases,
    "x-transformers": x_transformers_models.cases,
    "vit-pytorch": vit_pytorch_models.cases,
}
SECONDS = 60  # for one model


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.packages is not None:
        install_missing(options.packages)
    chosen = [case for name in options.family or FAMILIES for case in FAMILIES[name]()]
    chosen = [case for case in chosen if options.only is None or options.only in case.name]
    if options.list:
        for case in chosen:
            print(f"{case.family:<16} {case.name}")
        return 0
    if not chosen:
        print(f"no model has {options.only!r} in its name: see --list", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    begin = time.perf_counter()
    results = [(case, _run(case, options.verbose)) for case in chosen]
    return _summary(results, time.perf_counter() - begin)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="capture() on some 460 architectures, compared with independent weights."
    )
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--only", metavar="PATTERN", help="models whose name contains this")
    parser.add_argument("--family", action="append", choices=FAMILIES, help="may be given several times")
    parser.add_argument(
        "--packages", type=Path, metavar="FOLDER", help="install missing packages into this folder"
    )
    parser.add_argument("--verbose", action="store_true", help="print the models that are right too")
    return parser


def _run(case: Case, verbose: bool) -> Result:
    try:
        with warnings.catch_warnings(), _at_most(SECONDS):
            warnings.simplefilter("ignore")
            result = judge(case.build())
    except (Absent, ImportError) as error:
        result = Result(ABSENT, str(error))
    except _Late:
        result = Result(WRONG, f"did not end within {SECONDS} seconds")
    except Exception as error:
        result = Result(ABSENT, f"does not run by itself, {type(error).__name__}: {error}")
    if verbose or result.verdict != "right":
        detail = " ".join(result.detail.split())
        print(f"{result.verdict:<18} {case.family:<12} {case.name:<34} {detail[:240]}", flush=True)
    return result


def _summary(results: list[tuple[Case, Result]], seconds: float) -> int:
    ran = [case for case, result in results if result.verdict != ABSENT]
    counts = Counter(result.verdict for _, result in results)
    architectures = {(case.family, case.name.partition(",")[0]) for case in ran}
    print(f"\n{len(architectures)} architectures, {len(ran)} cases, {seconds:.0f} s")
    for verdict in VERDICTS:
        print(f"  {verdict:<18} {counts[verdict]}")
    return 1 if counts[WRONG] or counts[MISSED] else 0


class _Late(BaseException):
    """Raised in a model that exceeds the time limit."""


@contextlib.contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
