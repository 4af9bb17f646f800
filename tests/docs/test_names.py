"""Every dotted name, attribute and file that the READMEs and docs/ mention exists."""

import importlib
import re
import types
from pathlib import Path

import pytest

import regard
from support.pages import name_of, pages
from support.paths import ROOT

PAGES = pages()
DOTTED = re.compile(r"(?<![\w./])regard((?:\.[A-Za-z_]\w*)+)")
# Objects that the pages introduce once and then mention by these variable names.
OBJECTS = {"seen": regard.Recording, "record": regard.Record}
MEMBER = re.compile(rf"(?<![\w.])({'|'.join(OBJECTS)})\.([A-Za-z_]\w*)")
FILE = re.compile(r"`((?:\w+/)+\w+\.(?:py|js|css|c))`")


def resolve(path: str) -> object:
    """Return the object of a dotted name from ``regard``, importing the modules inside a room if necessary."""
    room, *names = path.strip(".").split(".")
    value: object = getattr(regard, room)
    for place, name in enumerate(names):
        if isinstance(value, types.ModuleType) and not hasattr(value, name):
            importlib.import_module(".".join(["regard", room, *names[: place + 1]]))
        value = getattr(value, name)
    return value


def has_member(cls: type, name: str) -> bool:
    return hasattr(cls, name) or name in getattr(cls, "__dataclass_fields__", {})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_name_on_the_page_exists(page):
    text = page.read_text(encoding="utf-8")
    for path in sorted(set(DOTTED.findall(text))):
        resolve(path)
    missing = {pair for pair in MEMBER.findall(text) if not has_member(OBJECTS[pair[0]], pair[1])}
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_on_the_page_exists(page):
    homes = (ROOT, ROOT / "src" / "regard", ROOT / "src" / "regard" / "viewer")
    missing = [
        name
        for name in FILE.findall(page.read_text(encoding="utf-8"))
        if not any((home / name).exists() for home in homes)
    ]
    assert missing == []


def test_every_room_is_an_attribute_after_import_regard():
    package = Path(regard.__file__).parent
    private = {"checks", "cli", "files", "modes", "topk", "torch_private", "weights"}
    rooms = {
        path.name.removesuffix(".py")
        for path in package.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    public = {room for room in rooms - private if not room.startswith("_")}
    assert public <= set(regard.__all__)
    for room in public:
        assert getattr(regard, room) is importlib.import_module(f"regard.{room}")


def test_a_name_that_is_gone_would_be_found():
    with pytest.raises(AttributeError, match="'atention'"):
        resolve(".atention")
    assert DOTTED.findall("`regard.analysis.flow(layers)` and torch.ops.regard._x") == [".analysis.flow"]
    assert MEMBER.findall("`seen.by(kind='self')`") == [("seen", "by")]
    assert not has_member(regard.Record, "nothing")


def test_every_public_name_has_a_runnable_example():
    def documented(value: object) -> str:
        parts = vars(value).values() if isinstance(value, type) else ()
        return "\n".join(one.__doc__ or "" for one in (value, *parts) if isinstance(one.__doc__, str))

    values = {name: getattr(regard, name) for name in regard.__all__}
    named = {name: value for name, value in values.items() if callable(value)}
    assert len(named) > 30
    assert [name for name, value in named.items() if ">>>" not in documented(value)] == []
