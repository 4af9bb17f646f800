"""Prompts and conversations as the input of a language model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.errors import ArgumentError

if TYPE_CHECKING:
    from regard.tasks.write import ChatTemplate

__all__ = ["Prompt", "chat_prompt", "is_chat"]


@dataclass(frozen=True)
class Prompt:
    """A text or a conversation with its tokens.

    ``continued`` says that the last message of the conversation is the beginning of the answer.
    """

    source: Any
    ids: list[int]
    continued: bool = False

    def with_answer(self, text: str) -> Any:
        """Return the text or the conversation with the text that was written after it.

        >>> Prompt([{"role": "user", "content": "Hello"}], []).with_answer("Hi")[1]
        {'role': 'assistant', 'content': 'Hi'}
        """
        if isinstance(self.source, str):
            return self.source + text
        if not self.continued:
            return [*self.source, {"role": "assistant", "content": text}]
        *others, last = self.source
        return [*others, {"role": last["role"], "content": last["content"] + text}]


def is_chat(source: Any) -> bool:
    """Return whether an input is a list of messages.

    >>> is_chat([{"role": "user", "content": "Hello"}]), is_chat(["Hello"])
    (True, False)
    """
    return isinstance(source, list | tuple) and bool(source) and isinstance(source[0], Mapping)


def chat_prompt(chat: ChatTemplate | None, messages: Any, continued: bool | None) -> tuple[str, bool]:
    """Return the prompt of a conversation, and whether the model continues the last message.

    By default it continues a message of the assistant.
    """
    from regard.text.chat import checked_messages

    if chat is None:
        raise ArgumentError("inputs", "this model has no chat template", "give a text in place of messages")
    checked = checked_messages(messages)
    last = checked[-1]
    continued = last["role"] == "assistant" if continued is None else continued
    if not continued:
        return chat.render(checked), False
    text, content = chat.render(checked, answer=False), last["content"]
    place = text.rfind(content.strip())
    if not content.strip() or place < 0:
        problem = "the chat template changes the last message, so it cannot be continued"
        raise ArgumentError("continue_final_message", problem, "use continue_final_message=False")
    # Some templates remove the spaces around a message.
    kept = content.lstrip()
    length = len(kept) if text[place : place + len(kept)] == kept else len(content.strip())
    return text[: place + length], True
