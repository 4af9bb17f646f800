"""Recognises functions and results that a learner has not filled in yet."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from regard.learn.exercise import Exercise
from regard.learn.runner import Run
from regard.learn.words import Words

__all__ = ["empty_functions", "tell_empty_helpers", "tell_unfilled"]

_NO_CODE = Words(
    "Nothing is filled in yet: {names} has no code. Replace the ... by your code and return the result, then check the "
    "file again. A hint: regard learn {exercise} --hint",
    "还没有填写：{names} 里没有代码。把 ... 换成你的代码并返回结果，然后再检查这个文件。"
    "提示：regard learn {exercise} --hint",
)
_NO_NUMBERS = Words(
    "Nothing is filled in yet: {names} are empty. Write your numbers between the brackets, then check the file again. "
    "A hint: regard learn {exercise} --hint",
    "还没有填写：{names} 都是空的。把你算出的数写在方括号里，然后再检查这个文件。提示：regard learn {exercise} --hint",
)
_SOME_NUMBERS = Words(
    "{names} is not filled in yet. Write your numbers between the brackets, then check the file again. "
    "A hint: regard learn {exercise} --hint",
    "{names} 还没有填写。把你算出的数写在方括号里，然后再检查这个文件。提示：regard learn {exercise} --hint",
)
_HELPER = Words("One note: {names} has no code yet.", "提示：{names} 里还没有代码。")
_AND = Words(" and ", " 和 ")


def empty_functions(source: str) -> list[str]:
    """Return the names of the functions of a file that have no code, such as only ``...`` or ``pass``.

    >>> empty_functions("def f(x):\\n    ...\\n\\ndef g(x):\\n    return x\\n")
    ['f']
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    # The last function of a name counts.
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    return [name for name, function in functions.items() if all(map(_is_empty, function.body))]


def _is_empty(statement: ast.stmt) -> bool:
    """Return whether a statement computes nothing.

    Such statements are a text, ``...``, ``pass``, a bare return and a raised NotImplementedError.
    """
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Return):
        value = statement.value
        return value is None or (isinstance(value, ast.Constant) and value.value in (None, ...))
    if isinstance(statement, ast.Raise) and statement.exc is not None:
        return "NotImplementedError" in ast.unparse(statement.exc)
    return isinstance(statement, ast.Pass)


def tell_unfilled(exercise: Exercise, run: Run, source: Sequence[str], language: str) -> list[str]:
    """Return what is said if the function or its numbers are not filled in yet, or else an empty list.

    ``source`` are the lines of the file.
    """
    if exercise.function in empty_functions("\n".join(source)) and not any(one.arrays for one in run.results):
        return [_NO_CODE.say(language, names=exercise.function, exercise=exercise.name)]
    if not exercise.start or not run.results:
        return []
    arrays = zip(exercise.returns, run.results[0].arrays, strict=False)
    names = [name for name, array in arrays if array.size == 0]
    words = _NO_NUMBERS if len(names) == len(exercise.returns) else _SOME_NUMBERS
    joined = _AND.say(language).join(names)
    return [words.say(language, names=joined, exercise=exercise.name)] if names else []


def tell_empty_helpers(exercise: Exercise, source: Sequence[str], language: str) -> list[str]:
    """Return that other functions of the file have no code yet, or an empty list."""
    names = [name for name in empty_functions("\n".join(source)) if name != exercise.function]
    return [_HELPER.say(language, names=_AND.say(language).join(names))] if names else []
