"""What is said of files that could not be run, and of results that are no arrays of numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from regard.errors import did_you_mean
from regard.learn.exercise import Case, Exercise
from regard.learn.runner import Limits
from regard.learn.words import Words

__all__ = ["shapes_of", "tell_result", "tell_trouble"]

# By the kind in the report of the child process. {where} is the line, with its text, or empty.
_TROUBLES = {
    "syntax": Words(
        "Python cannot read the file{where}: {message}.",
        "Python 无法解析这个文件{where}：{message}。",
    ),
    "encoding": Words(
        "The file is not encoded as UTF-8. Save it as UTF-8 in your editor.",
        "文件的编码不是 UTF-8。请在编辑器中另存为 UTF-8。",
    ),
    "missing": Words(
        "The file imports {name}{where}, but no module of this name is installed. The exercises need only NumPy.",
        "文件导入了 {name}{where}，但没有安装这个模块。这些练习只需要 NumPy。",
    ),
    "raised": Words(
        "Running the file raised {type}{where}: {message}",
        "运行文件时发生了 {type}{where}：{message}",
    ),
    "exit": Words(
        "The file ends the program{where}, with exit() or sys.exit(). Return the result instead.",
        "文件用 exit() 或 sys.exit() 结束了程序{where}。请改为返回结果。",
    ),
    "ended": Words(
        "The process ended before your function returned (exit code {code}). Look for os._exit(), or for a call that "
        "crashes the interpreter.",
        "进程在函数返回之前就结束了（退出码 {code}）。请查找 os._exit()，或使解释器崩溃的调用。",
    ),
    "memory": Words(
        "The file needs more than the {gigabytes:g} GB of memory that an exercise may use{where}. Look for an array "
        "that is far too large, or a list that grows without end.",
        "文件需要的内存超过了练习允许的 {gigabytes:g} GB{where}。请查找过大的数组，或不断增长的列表。",
    ),
    "output": Words(
        "The file printed more than 1 MB and was stopped. Look for a print in a loop.",
        "文件打印的内容超过 1 MB，已被停止。请查找循环中的 print。",
    ),
    "no_function": Words(
        "The file has no function {function}. {near}Keep its name, so that the exercise can call it.",
        "文件中没有函数 {function}。{near}请保留这个名字，练习才能调用它。",
    ),
    "arguments": Words(
        "{function} takes {given}. The exercise calls it as {call}.",
        "{function} 的参数是{given}。练习按 {call} 来调用它。",
    ),
}
_TIMES = {
    False: Words(
        "Your function did not finish within {seconds:g} seconds of computing{where}. Look for a loop that never ends.",
        "你的函数计算了 {seconds:g} 秒还没有结束{where}。请查找不会结束的循环。",
    ),
    True: Words(
        "Your function was still waiting after {seconds:g} seconds{where}. Look for sleep() or input().",
        "你的函数等待了 {seconds:g} 秒还没有返回{where}。请查找 sleep() 或 input()。",
    ),
}
_REFUSALS = {
    "delete": Words(
        "The file tried to delete {name}{where}. This was refused, and nothing was deleted. An exercise only computes.",
        "文件试图删除 {name}{where}。该操作已被拒绝，没有删除任何东西。练习只做计算。",
    ),
    "write": Words(
        "The file tried to write or change {name}{where}. This was refused, and nothing was changed. An exercise only "
        "computes.",
        "文件试图写入或更改 {name}{where}。该操作已被拒绝，没有更改任何东西。练习只做计算。",
    ),
    "start": Words(
        "The file tried to start or end another process{where}. This was refused. An exercise only computes.",
        "文件试图启动或结束其他进程{where}。该操作已被拒绝。练习只做计算。",
    ),
    "connect": Words(
        "The file tried to use the network{where}. This was refused. An exercise only computes.",
        "文件试图使用网络{where}。该操作已被拒绝。练习只做计算。",
    ),
}
_RESULTS = {
    "raised": Words(
        "With {arguments} your function raised {type}{where}: {message}{shapes}",
        "参数为 {arguments} 时，你的函数发生了 {type}{where}：{message}{shapes}",
    ),
    "none": Words(
        "Your function returned None, or a list with None in it. Does it end with return?",
        "你的函数返回了 None，或包含 None 的列表。最后有没有 return？",
    ),
    "ragged": Words(
        "Your function returned a {type} whose rows have different lengths. Return one array of numbers.",
        "你的函数返回的 {type} 中各行长度不同。请返回一个数值数组。",
    ),
    "tuple": Words(
        "Your function returned {given} things. Return only {what}.",
        "你的函数返回了 {given} 个结果。请只返回{what}。",
    ),
    "parts": Words(
        "Your function returned {given} thing(s) of type {type}. The exercise asks for {count}: {what}.{turned}",
        "你的函数返回了 {given} 个结果，类型是 {type}。本题要 {count} 个：{what}。{turned}",
    ),
    "complex": Words(
        "Your function returned complex numbers. Return real ones. If you rotate with complex numbers, put the real "
        "and the imaginary parts into two columns. Otherwise look for a root of a negative number.",
        "你的函数返回了复数。请返回实数。如果你用复数做旋转，把实部和虚部放进两列。否则请查找对负数开方的地方。",
    ),
    "text": Words(
        "Your function returned text. Return numbers.",
        "你的函数返回了文本。请返回数值。",
    ),
    "object": Words(
        "Your function returned a {type}, which is no array of numbers. Return an array, a tensor, or lists of "
        "numbers.",
        "你的函数返回了 {type}，它不是数值数组。请返回数组、张量或数值列表。",
    ),
    "large": Words(
        "Your function returned more than a million numbers for arguments as small as {arguments}.",
        "参数只有 {arguments} 这么小，你的函数却返回了一百多万个数。",
    ),
}
_AXIS_LOST = Words(
    "\nOne of the two shapes lacks an axis of the other: sum, max and mean drop the axis that they reduce. With "
    "keepdims=True it stays, with size 1.",
    "\n其中一个形状比另一个少一个轴：sum、max 和 mean 会去掉被归约的轴。加上 keepdims=True，这个轴会保留，大小为 1。",
)
_NO_SUCH_AXIS = Words(
    "\nThe last axis of any array is axis=-1.",
    "\n任何数组的最后一个轴都是 axis=-1。",
)
_NO_TRUTH = Words(
    "\nif, min and max need one number, and this is an array. Choose number by number: np.where, np.minimum and "
    "np.maximum.",
    "\nif、min 和 max 需要一个数，而这里是数组。应逐个数选择：np.where、np.minimum 和 np.maximum。",
)
_ARRAY_LOGIC = Words(
    "\nnot, and and or need one truth value, and this is an array. Write ~, & and | between arrays, such as ~mask.",
    "\nnot、and 和 or 需要一个真值，而这里是数组。数组之间应写 ~、& 和 |，例如 ~mask。",
)
_FLOAT_SIZE = Words(
    "\nA size or an index is a whole number. / gives a float even if nothing remains: divide with //.",
    "\n大小和下标必须是整数。即使能整除，/ 也得到浮点数：应使用 //。",
)
_NO_NUMPY = Words(
    "\nAdd `import numpy as np` at the top of the file.", "\n在文件开头加上 `import numpy as np`。"
)
_NO_KEEPDIM = Words(
    "\nkeepdim and dim are words of PyTorch. NumPy has keepdims=True and axis=-1.",
    "\nkeepdim 和 dim 是 PyTorch 的写法。NumPy 中是 keepdims=True 和 axis=-1。",
)
# What the messages of some exceptions say.
_FLOAT_MESSAGES = ("'float' object cannot be interpreted as an integer", "indices must be integers")
_ODD_WIDTH = Words(
    "\nOf an odd width, the columns 1::2 are one fewer than the columns 0::2. Cut the right side to their number, "
    "such as [:, : width // 2].",
    "\n宽度为奇数时，列 1::2 比列 0::2 少一列。把右边截到相同的列数，例如 [:, : width // 2]。",
)
_TURNED = Words(
    " Each of yours has {count} parts, so rows and columns are swapped: return {count} arrays, as zip(*result) gives "
    "them.",
    "你的每个结果都有 {count} 个部分，行和列交换了：应返回 {count} 个数组，用 zip(*result) 可以得到。",
)
_BROADCAST = re.compile(r"broadcast together with shapes \(([\d,]*)\) \(([\d,]*)\)")
_ASSIGNED = re.compile(r"broadcast input array from shape \(([\d,]*)\) into shape \(([\d,]*)\)")
_WHERE = Words(" in line {line}", "（第 {line} 行）")
_WHERE_TEXT = Words(" in line {line}, “{text}”", "（第 {line} 行，“{text}”）")


def tell_trouble(
    trouble: dict[str, Any], exercise: Exercise, source: Sequence[str], language: str, limits: Limits
) -> str:
    """Return what is said of a file that could not be run to its end. ``source`` are the lines of the file."""
    kind = trouble["kind"]
    values = {
        **trouble,
        "where": _where(trouble.get("line", 0), source, language),
        "function": exercise.function,
    }
    if kind == "refused":
        values["name"] = trouble["name"] or "?"
        return _REFUSALS[trouble["action"]].say(language, **values)
    if kind == "time":
        seconds = limits.wall if trouble["waited"] else limits.cpu
        return _TIMES[trouble["waited"]].say(language, **values, seconds=seconds)
    if kind == "no_function":
        values["near"] = _nearest(exercise.function, trouble["names"], language)
    if kind == "arguments":
        values["given"] = _parameters(trouble["names"], language)
        values["call"] = f"{exercise.function}({', '.join(exercise.arguments)})"
    if kind == "memory":
        values["gigabytes"] = limits.memory / 1024**3
    if "message" in values:
        values["message"] = _sentence(values["message"])
    if kind == "raised":
        values["message"] += "".join(words.say(language) for words in _usual_causes(trouble, source))
    return _TROUBLES[kind].say(language, **values)


def tell_result(
    report: dict[str, Any], case: Case, exercise: Exercise, source: Sequence[str], language: str
) -> str:
    """Return what is said of a call that raised an error, or whose result is no array of numbers."""
    names = {one.name: one.words for one in exercise.told_steps}
    what = " , ".join(names[name].say(language) for name in exercise.returns).replace(" , ", ", ")
    values = {
        **report,
        "where": _where(report.get("line", 0), source, language),
        "arguments": shapes_of(case) or "()",
        "what": what,
        "count": len(exercise.returns),
    }
    if report["kind"] == "raised":
        values["message"] = _sentence(report["message"])
        values["shapes"] = _shapes_there(report, case, source, language)
        values["shapes"] += "".join(words.say(language) for words in _usual_causes(report, source))
    turned = report.get("tuples", False)
    values["turned"] = _TURNED.say(language, count=len(exercise.returns)) if turned else ""
    return _RESULTS[report["kind"]].say(language, **values)


def shapes_of(case: Case) -> str:
    """Return the arguments of a case with their shapes, or with their values if they are numbers.

    >>> import numpy as np
    >>> shapes_of(Case({"q": np.zeros((2, 3)), "n": 4}))
    'q (2, 3), n = 4'
    """
    return ", ".join(
        f"{name} {value.shape}" if hasattr(value, "shape") else f"{name} = {value}"
        for name, value in case.arguments.items()
    )


def _shapes_there(report: dict[str, Any], case: Case, source: Sequence[str], language: str) -> str:
    """Return the shapes of the variables of the line that raised an error, except of arguments that did not change."""
    line = report.get("line", 0)
    text = source[line - 1] if 0 < line <= len(source) else ""
    arguments = {name: list(getattr(value, "shape", ())) for name, value in case.arguments.items()}
    shown = [
        f"{name} {tuple(shape)}"
        for name, shape in report.get("shapes", {}).items()
        if name in text and arguments.get(name) != shape
    ]
    if not shown:
        return ""
    return Words("\nIn that line: {shapes}", "\n在这一行：{shapes}").say(language, shapes=", ".join(shown))


def _usual_causes(report: dict[str, Any], source: Sequence[str]) -> list[Words]:
    """Return the usual causes of an exception of the learner's file."""
    message: str = report["message"]
    line: int = report.get("line", 0)
    text = source[line - 1] if 0 < line <= len(source) else ""
    logic = re.search(r"\b(not|and|or)\b", text) is not None
    no_truth = "truth value of a" in message
    causes = {
        _AXIS_LOST: _lost_axis(message),
        _ODD_WIDTH: _one_column_more(message),
        _NO_SUCH_AXIS: report["type"] == "AxisError",
        _NO_TRUTH: no_truth and not logic,
        _ARRAY_LOGIC: no_truth and logic,
        _FLOAT_SIZE: any(words in message for words in _FLOAT_MESSAGES),
        _NO_NUMPY: message == "name 'np' is not defined",
        _NO_KEEPDIM: re.search(r"unexpected keyword argument '(keepdim|dim)'", message) is not None,
    }
    return [words for words, applies in causes.items() if applies]


def _lost_axis(message: str) -> bool:
    """Return whether an error of broadcasting has two shapes, of which one is the other without one axis.

    >>> _lost_axis("operands could not be broadcast together with shapes (2,3) (2,) ")
    True
    >>> _lost_axis("operands could not be broadcast together with shapes (2,3) (4,3) ")
    False
    """
    found = _BROADCAST.search(message)
    if not found:
        return False
    shorter, longer = sorted((text.strip(",").split(",") for text in found.groups()), key=len)
    return any(shorter == longer[:axis] + longer[axis + 1 :] for axis in range(len(longer)))


def _one_column_more(message: str) -> bool:
    """Return whether an array was assigned to a place that has one column less.

    >>> _one_column_more("could not broadcast input array from shape (5,4) into shape (5,3)")
    True
    """
    found = _ASSIGNED.search(message)
    if not found:
        return False
    given, place = ([int(size) for size in text.split(",") if size] for text in found.groups())
    return bool(place) and given == [*place[:-1], place[-1] + 1]


def _where(line: int, source: Sequence[str], language: str) -> str:
    if not line:
        return ""
    text = source[line - 1].strip()[:80] if line <= len(source) else ""
    return (_WHERE_TEXT if text else _WHERE).say(language, line=line, text=text)


def _sentence(message: str) -> str:
    return " ".join(message.split()).rstrip(".") or "-"


def _nearest(function: str, names: Sequence[str], language: str) -> str:
    """Return the names of the functions that the file has instead, as a sentence."""
    if not names:
        return ""
    near = did_you_mean(function, names)
    name = near.split("'")[1] if near else ", ".join(names)
    return Words("It has {name}. ", "它有 {name}。").say(language, name=name)


def _parameters(names: Sequence[str], language: str) -> str:
    if not names:
        return Words("no arguments", "空的").say(language)
    return Words("the arguments {names}", " {names}").say(language, names=", ".join(names))
