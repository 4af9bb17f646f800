"""Rendering of one chat template, as a program of its own.

:mod:`regard.text.chat` runs this file in a process with limits, because a template comes with a model and may be
hostile. The process reads a JSON object from standard input and writes one to standard output. It imports nothing of
Regard.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

__all__ = ["main", "render"]


def main() -> None:
    """Read a request from standard input, and write the result or the error to standard output."""
    request = json.load(sys.stdin)
    _limit(request["seconds"], request["bytes"])
    sys.path[:0] = request["path"]
    try:
        text = render(request["template"], request["values"])
        result = {"text": text}
        if len(text) > request["most"]:
            result = {"error": f"it makes {len(text):,} characters: expected {request['most']:,} or less"}
    except MemoryError:
        result = {"error": "it needs too much memory"}
    except RecursionError:
        result = {"error": "it calls itself too deeply"}
    except Exception as error:  # a template may raise any exception
        result = {"error": f"{type(error).__name__}: {error}"[:500]}
    json.dump(result, sys.stdout)


def render(template: str, values: dict[str, Any]) -> str:
    """Return the text of a Jinja template in a sandbox, with the functions that Hugging Face's templates may use."""
    import jinja2
    import jinja2.nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """The tag ``{% generation %}``, which marks the answers of the model and writes its content."""

        def __init__(self, environment: Any):
            self.tags = {"generation"}
            super().__init__(environment)

        def parse(self, parser: Any) -> Any:
            """Return the statements inside of the tag."""
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=line)

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    def tojson(x: Any, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    sandbox.filters["tojson"] = tojson
    sandbox.globals["raise_exception"] = raise_exception
    sandbox.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return sandbox.from_string(template).render(**values)


def _limit(seconds: int, size: int) -> None:
    """Limit the time and the memory of this process, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


if __name__ == "__main__":
    main()
