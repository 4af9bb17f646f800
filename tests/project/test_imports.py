"""Tests of which rooms may import which, and of which packages are loaded when."""

import ast
import json
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import regard

PACKAGE = Path(regard.__file__).parent

# The rooms of docs/design.md and the rooms each may use. A new room has to be added, with a reason.
BASE = {"errors", "checks", "files", "torch_private"}
PARTS = BASE | {"modes", "shapes", "scores", "masks", "positions", "biases"}
CORE = PARTS | {"kernels", "maps", "core"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "settings": BASE,
    "reference": set(),  # the oracle stands alone
    "_tokens": set(),
    "files": {"errors"},
    "checks": {"errors"},
    "torch_private": {"errors"},
    "modes": BASE,
    "shapes": BASE,
    "scores": BASE | {"modes", "shapes"},
    "masks": BASE | {"modes", "shapes"},
    "positions": BASE | {"shapes"},
    "biases": BASE | {"modes", "shapes", "masks", "positions"},
    "kernels": PARTS,
    "maps": PARTS | {"kernels", "topk"},
    "core": CORE,
    "layers": CORE,
    "capture": CORE | {"_tokens", "viewer", "analysis"},  # a recording shows and counts what was seen
    "integrations": CORE,
    "_drawing": BASE | {"_tokens"},
    "_fonts": BASE,
    "_highlights": BASE | {"_drawing"},
    "plots": BASE | {"_drawing", "_fonts", "_highlights", "_tokens", "maps"},
    "terminal": BASE | {"_drawing", "_highlights", "_tokens", "maps"},
    "_lazy": set(),
    "topk": set(),
    "viewer": CORE - {"core"} | {"_lazy", "_tokens"},  # maps and what they are made of; no models, no tasks
    "text": BASE | {"shapes", "_lazy", "_tokens"},
    "images": BASE | {"_lazy", "text"},  # a table of pictures is read like one of texts
    "corpus": {"errors"},
    "analysis": BASE | {"_tokens", "maps", "shapes"},
    "metrics": BASE,
    "copying": BASE | {"shapes"},  # the output layers of models and the losses of training mix alike
    "models": CORE | {"copying", "layers"},
    "decoding": BASE | {"copying", "shapes", "maps", "topk"},  # models come to it through a protocol
    "training": BASE | {"_lazy", "copying", "settings", "shapes"},
    "tasks": CORE
    | {
        "_lazy",
        "copying",
        "settings",
        "layers",
        "models",
        "text",
        "images",
        "corpus",
        "decoding",
        "training",
        "metrics",
        "analysis",
    }
    # Predictors record their attention, `look` that of any model. A training ends with a map in the terminal.
    | {"plots", "terminal", "_highlights", "_drawing", "_tokens", "capture"},
    "exporting": CORE | {"_lazy", "copying", "layers", "models", "tasks"},  # predictors are exported whole
    "pipelines": CORE | {"_lazy", "decoding", "models", "text", "tasks", "capture"},
    # The tour shows what all of them do, on a page of the viewer.
    "learn": CORE
    | {"layers", "training", "reference", "plots", "terminal", "_drawing"}
    | {"capture", "corpus", "images", "metrics", "tasks", "text", "viewer"},
    "cli": CORE
    | {
        "layers",
        "training",
        "reference",
        "plots",
        "terminal",
        "_fonts",
        "exporting",
        "learn",
        "settings",
        "tasks",
        "text",
        "images",
        "decoding",
        "viewer",
    },
    "__main__": {"cli"},
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def package_names(tree: ast.AST) -> set[str]:
    """Return the names to which ``import regard``, ``import regard as r`` and the like bind the package."""
    aliases = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    plain = {"regard" for alias in aliases if alias.name.split(".")[0] == "regard" and not alias.asname}
    return plain | {alias.asname for alias in aliases if alias.name == "regard" and alias.asname}


def read_names(node: ast.AST, where: list[str], package: set[str]) -> list[str]:
    """The dotted names that one node imports or reads from the package, as in ``regard.capture(model)``."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = where[: len(where) - node.level + 1] if node.level else []
        start = ".".join([*base, *([node.module] if node.module else [])])
        return [f"{start}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in package:
        return [f"regard.{node.attr}"]
    if isinstance(node, ast.Call):
        words = [
            arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
        ]
        called = ast.unparse(node.func)
        if called == "getattr" and ast.unparse(node.args[0]) in package:
            return [f"regard.{word}" for word in words[:1]]
        if called.endswith("import_module"):
            return words[:1]
    return []


def used_rooms(source: str, where: list[str]) -> set[str]:
    """Return the rooms that a source in the package ``where`` imports or reaches through the package.

    A public name such as ``regard.causal`` counts as its room, ``masks``.
    """
    tree = ast.parse(source)
    package = package_names(tree)
    used: set[str] = set()
    for node in ast.walk(tree):
        for name in read_names(node, where, package):
            parts = name.split(".")
            if parts[0] == "regard" and len(parts) > 1 and not parts[1].startswith("__"):
                used.add(regard._HOME_OF.get(parts[1], name).split(".")[1])
    return used


def offences(path: Path, source: str) -> set[str]:
    where = ["regard", *path.relative_to(PACKAGE).parent.parts]
    room = room_of(path)
    return used_rooms(source, where) - ALLOWED[room] - {room}


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_import_only_what_they_may(path):
    assert room_of(path) in ALLOWED, "a new room: add it to the table above and to docs/design.md"
    assert offences(path, path.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize(
    "line",
    [
        "import regard.cli",
        "from regard import layers",
        "from .. import layers",
        "def f():\n from regard.cli import main",
        "import regard\nregard.capture(model)",
        "import regard as r\nwith r.capture.capture(model): pass",
        "import regard.errors\nregard.cli.main()",
        "def f():\n import regard\n return regard.attention(q, k, v)",
        "import regard\ngetattr(regard, 'layers')",
        "from regard import plot_weights",
        "import importlib\nimportlib.import_module('regard.cli')",
    ],
)
def test_the_check_sees_every_form_of_import(line):
    assert offences(PACKAGE / "masks" / "some.py", line)


@pytest.mark.parametrize(
    "line",
    [
        "from regard import __version__",
        "import regard\nregard.errors.RegardError\nregard.RegardError\nregard.causal()\nregard.__version__",
        "regard = {}\nregard.capture",
    ],
)
def test_the_check_allows_what_the_table_allows(line):
    assert offences(PACKAGE / "masks" / "some.py", line) == set()


# The sub-rooms of capture and the sub-rooms each may use. Files beside them are the public side and may use all.
CAPTURE_ROOMS = {"watching": {"joining", "reading"}, "joining": {"reading"}, "reading": set()}


def capture_imports(changes: dict[str, str] | None = None) -> dict[str, set[str]]:
    """The modules of ``regard.capture`` that each of them imports, inside functions and for type checkers too.

    ``changes`` are lines to add to the source of some modules.
    """
    folder = PACKAGE / "capture"
    paths = [path for path in folder.rglob("*.py") if path.name not in ("hf.py", "__init__.py")]
    names = {".".join(("regard", *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in paths}
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        source = path.read_text(encoding="utf-8") + (changes or {}).get(name, "")
        graph[name] = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                package = name.split(".")[: -node.level] if node.level else []
                start = ".".join([*package, *([node.module] if node.module else [])])
                imported = [start, *(f"{start}.{alias.name}" for alias in node.names)]
            else:
                continue
            graph[name].update(x for x in imported if x in names)
    return graph


def capture_offences(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Pairs of modules of which the first may not import the second, by the table above."""
    found = []
    for name, imported in graph.items():
        room = name.split(".")[2]
        for other in imported:
            other_room = other.split(".")[2]
            if room in CAPTURE_ROOMS and room != other_room and other_room not in CAPTURE_ROOMS[room]:
                found.append((name, other))
    return found


def test_capture_has_no_import_cycle():
    assert len(list(TopologicalSorter(capture_imports()).static_order())) > 40


def test_the_rooms_of_capture_import_in_one_direction():
    assert capture_offences(capture_imports()) == []


def test_the_checks_on_capture_see_imports_for_type_checkers():
    line = "if TYPE_CHECKING:\n    from regard.capture.watching.session import Session\n"
    graph = capture_imports({"regard.capture.watching.modes": line})
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()
    graph = capture_imports({"regard.capture.reading.masks": "from ..joining import stitching\n"})
    assert capture_offences(graph) == [("regard.capture.reading.masks", "regard.capture.joining.stitching")]


def test_the_oracle_imports_numpy_and_nothing_else():
    for path in sorted((PACKAGE / "reference").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                top = name.split(".")[0]
                assert top == "numpy" or top in sys.stdlib_module_names, f"{path.name} imports {name}"


def loaded_after(code: str) -> set[str]:
    """The top-level modules in ``sys.modules`` of a fresh process."""
    code = f"import sys, json\n{code}\nprint(json.dumps(sorted({{n.split('.')[0] for n in sys.modules}})))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(result.stdout.splitlines()[-1]))


HEAVY = {"torch", "numpy", "matplotlib", "transformers"}
HELP = """
from regard.cli import main
try:
    main(["--help"])
except SystemExit as stop:
    assert stop.code == 0
"""


@pytest.mark.parametrize("code", ["import regard", "import regard; dir(regard)", HELP])
def test_import_and_help_load_nothing_heavy(code):
    assert loaded_after(code) & HEAVY == set()


def test_the_check_on_loading_can_fail():
    assert "numpy" in loaded_after("import regard; regard.explain")


def test_the_oracle_loads_no_torch():
    assert "torch" not in loaded_after("from regard import explain; import regard.reference")


def test_plots_load_matplotlib_only_to_draw():
    assert "matplotlib" not in loaded_after("import regard.plots, regard.terminal, regard.learn.tour")


@pytest.mark.parametrize("name", regard.__all__)
def test_every_public_name_is_there_and_listed(name):
    assert getattr(regard, name) is not None
    assert name in dir(regard)


def test_all_is_what_the_table_says():
    assert set(regard.__all__) == {*regard._HOME_OF, *regard._SUBMODULES, "__version__"}


def test_attention_is_the_function_whatever_was_imported_before():
    code = "import regard.core, regard.layers; from regard import attention; assert callable(attention)"
    loaded_after(code + "; assert regard.attention is attention is regard.core.attention")


def test_a_misspelt_name_is_answered_with_the_right_one():
    with pytest.raises(
        AttributeError, match="has no attribute 'MultiheadAttention': did you mean 'MultiHeadAttention'"
    ):
        getattr(regard, "MultiheadAttention")  # noqa: B009
    with pytest.raises(ImportError):
        from regard import nothing_like_it  # noqa: F401


def test_a_missing_extra_is_named_with_its_command():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import regard\n"
        "try: regard.plot_weights([1.0])\n"
        "except regard.RegardError as error: print(error); assert isinstance(error, ImportError)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    command = regard.errors.install_command("plot")
    assert result.stdout == f"drawing needs matplotlib: install it with  {command}\n"
