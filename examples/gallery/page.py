"""The page that every script of the gallery writes, and the way to leave a model out that is not there."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from regard.viewer.articles import Text, View, save_article

OUT = Path(os.environ.get("REGARD_GALLERY", "build/gallery"))


def write_page(
    name: str, title: str, english: str, chinese: str, views: dict[str, Any], images: Any = None
) -> None:
    """Write one page, with what to look for in both languages above a viewer of each recording."""
    OUT.mkdir(parents=True, exist_ok=True)
    blocks = [Text("title", title), *(Text("paragraph", " ".join(text.split())) for text in (english,))]
    blocks.append(Text("paragraph", "".join(chinese.split("\n"))))
    blocks += [View(records, label, images) for label, records in views.items()]
    save_article(OUT / f"{name}.html", f"{title} · Regard", blocks)
    print(OUT / f"{name}.html")


def named_file(variable: str, what: str) -> Path:
    """Return the path that an environment variable names, or leave the page out with a message."""
    place = os.environ.get(variable, "")
    return Path(place) if place and Path(place).exists() else leave_out(f"set {variable} to {what}")


def installed(task: str) -> Any:
    """Return the predictor of the first installed model of a task, or leave the page out with a message."""
    from regard.tasks import installed_models, load

    found = [model for model in installed_models() if model.task == task]
    return load(found[0].folder) if found else leave_out(f"no model is installed: regard train {task}")


def example_picture(task: str, name: str) -> Path:
    """Return a picture that comes with the installed model of a task, or leave the page out with a message."""
    from regard.tasks.registry import find_model

    picture = find_model(task) / "examples" / name
    return picture if picture.exists() else leave_out(f"no picture {name} comes with the installed model")


def leave_out(why: str) -> NoReturn:
    """End the script with a message, but without an error."""
    print(f"{Path(sys.argv[0]).stem}: left out: {why}", file=sys.stderr)
    sys.exit(0)
