"""Chat templates, which turn the messages of a conversation into the prompt that a model was trained with."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import ArgumentError, DtypeError, FileError, MissingExtraError
from regard.files import read_json
from regard.text import chat_renderer

__all__ = ["ChatTemplate", "Message", "template_of_folder"]

Message = Mapping[str, Any]

# Limits of one rendering: seconds of computing, bytes of memory, characters of a template, and characters of the result
# for each character of the messages and the template.
_SECONDS = 2
# Seconds until a rendering is ended that computes little, because the machine is busy or has no limit of computing.
_WAIT = 60 if os.name == "posix" else 5 * _SECONDS
_MEMORY = 512 * 2**20
_MOST_TEMPLATE = 2**20
_GROWTH = 100


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template in the language Jinja, as Hugging Face folders and GGUF files hold it.

    ``source`` is the text of the template, and ``specials`` are the names that it may use for special tokens, such as
    ``bos_token``. ``where`` is the file that it comes from, for errors. A template comes with a model, so it runs in a
    sandbox, in a process with limits of time and memory.

    >>> template = ChatTemplate("{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}")
    >>> template.render([{"role": "user", "content": "Hello"}])
    'user: Hello\\n'
    """

    source: str
    specials: Mapping[str, str] = field(default_factory=dict)
    where: str = "template"

    def render(self, messages: Sequence[Message], *, answer: bool = True) -> str:
        """Return the text of a conversation, up to the place where the answer of the model begins.

        Each message has a ``role`` ("system", "user" or "assistant") and a ``content``. With ``answer=False`` the text
        ends after the last message. Raises FileError if the template is wrong, refuses the messages, or takes too much
        time, memory or text.
        """
        values = {
            **self.specials,
            "messages": checked_messages(messages),
            "tools": None,
            "documents": None,
            "add_generation_prompt": answer,
        }
        if len(self.source) > _MOST_TEMPLATE:
            raise self._wrong(f"it has {len(self.source):,} characters: expected {_MOST_TEMPLATE:,} or less")
        request = {"template": self.source, "values": values, "seconds": _SECONDS, "bytes": _MEMORY}
        most = _GROWTH * (len(self.source) + len(json.dumps(values)))
        result = self._run(json.dumps({**request, "most": most, "path": _jinja_path()}))
        if "error" in result:
            raise self._wrong(result["error"])
        if not result["text"]:
            raise self._wrong("it is empty, or makes an empty text of the messages")
        return result["text"]

    def _run(self, request: str) -> dict[str, Any]:
        """Run the renderer in a process of its own, and return its answer."""
        command = [sys.executable, "-I", "-S", chat_renderer.__file__]
        try:
            done = subprocess.run(
                command, input=request.encode(), capture_output=True, timeout=_WAIT, env=_environment()
            )
        except subprocess.TimeoutExpired:
            raise self._wrong(f"it takes more than {_WAIT} seconds") from None
        try:
            return json.loads(done.stdout)
        except ValueError:
            # The system ends a process that exceeds its limits.
            raise self._wrong(
                f"it takes more than {_SECONDS} seconds or {_MEMORY >> 20} MB of memory"
            ) from None

    def _wrong(self, problem: str) -> FileError:
        return FileError(f"{self.where}: the chat template cannot be used: {problem}")


def checked_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return a copy of the messages, or raise an error unless each has a role and a text as its content."""
    if isinstance(messages, str) or not isinstance(messages, Sequence):
        raise DtypeError("messages", f"expected a list of messages, got {type(messages).__name__}")
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping):
            told = f"message {number} is a {type(message).__name__}"
            raise DtypeError("messages", told, 'write {"role": "user", "content": "..."}')
        for part in ("role", "content"):
            if not isinstance(message.get(part), str):
                told = f"message {number} has the {part} {message.get(part)!r}, expected a text"
                raise ArgumentError("messages", told)
    if not messages:
        raise ArgumentError("messages", "there is no message")
    return [dict(message) for message in messages]


def template_of_folder(folder: Path, specials: Mapping[str, str]) -> ChatTemplate | None:
    """Return the chat template of a Hugging Face folder, or None if it has none.

    It is ``chat_template.jinja``, or else the ``chat_template`` of ``tokenizer_config.json``. Of several templates it
    is that named "default".
    """
    path = folder / "chat_template.jinja"
    if path.is_file():
        try:
            return ChatTemplate(path.read_text(encoding="utf-8"), specials, str(path))
        except (OSError, ValueError) as error:
            raise FileError(f"{path}: cannot be read as UTF-8 ({error})") from None
    path = folder / "tokenizer_config.json"
    source = read_json(path).get("chat_template") if path.is_file() else None
    if isinstance(source, list):
        named = {entry.get("name"): entry.get("template") for entry in source if isinstance(entry, dict)}
        source = named.get("default")
    if source is not None and not isinstance(source, str):
        raise FileError(f"{path}: chat_template: expected a text, got {type(source).__name__}")
    return None if source is None else ChatTemplate(source, specials, str(path))


@functools.cache
def _jinja_path() -> list[str]:
    """Return the folders that hold the packages jinja2 and markupsafe."""
    folders = []
    for name in ("jinja2", "markupsafe"):
        package = importlib.util.find_spec(name)
        if package is None or package.origin is None:
            raise MissingExtraError(name, "text", "a chat template")
        folders.append(str(Path(package.origin).parent.parent))
    return sorted(set(folders))


def _environment() -> dict[str, str]:
    """Return the environment variables of the process, which needs the time zone and, on Windows, the system folder."""
    kept = ("TZ", "SYSTEMROOT")
    return {name: os.environ[name] for name in kept if name in os.environ}
