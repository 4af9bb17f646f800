"""Chat templates, compared with Transformers, and hostile ones."""

from __future__ import annotations

import json
import time

import pytest

from regard.errors import ArgumentError, DtypeError, FileError
from regard.text.chat import ChatTemplate, template_of_folder
from support.language_models import byte_level_tokenizer, real_model

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}"
    "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
    "{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
TOOLS = """{%- set ns = namespace(found=false) %}
{%- for message in messages %}
    {%- if message.role == 'system' %}{% set ns.found = true %}{% continue %}{% endif %}
    {%- generation %}
{{ message.role | capitalize }}: {{ message.content | tojson }}
    {% endgeneration %}
{%- endfor %}
{{- '\\n' ~ ns.found ~ (tools is none) }}{% if add_generation_prompt %} go{% endif %}"""
TEMPLATES = {"smollm2": SMOLLM2, "llama2": LLAMA2, "tools": TOOLS}
CONVERSATIONS = {
    "one": [{"role": "user", "content": " Hello, naïve <world> & 'you'\n"}],
    "with a system": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    "three": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "{{ 7 * 7 }} {% raw %}"},
        {"role": "user", "content": "中文"},
    ],
}
SPECIALS = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_gives_the_text_of_transformers(name, conversation):
    transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")
    backend = byte_level_tokenizer()._tokenizer
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIALS)
    messages, ours = CONVERSATIONS[conversation], ChatTemplate(TEMPLATES[name], SPECIALS)
    for answer in (True, False):
        expected = theirs.apply_chat_template(
            messages, chat_template=TEMPLATES[name], tokenize=False, add_generation_prompt=answer
        )
        assert ours.render(messages, answer=answer) == expected


HOSTILE = {
    "endless": ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "seconds"),
    "grows": (
        "{% set ns = namespace(s='a') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
        "memory",
    ),
    "wide": ("{{ 'a' * 10 ** 12 }}", "memory"),
    "long": ("{% for a in range(99999) %}{{ 'abcdefgh' }}{% endfor %}", "characters: expected"),
    "recursive": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "calls itself|memory|seconds"),
    "escape": ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "SecurityError|unsafe"),
    "function": ("{{ raise_exception.__globals__['sys'].exit(0) }}", "SecurityError|unsafe|UndefinedError"),
    "file": ("{% include '/etc/passwd' %}", "no loader|TypeError|TemplateNotFound"),
    "syntax": ("{% for %}", "TemplateSyntaxError"),
    "undefined": ("{{ messages[0].nothing.more }}", "UndefinedError"),
    "changes": ("{{ messages.append(1) }}", "SecurityError|unsafe|not safely callable"),
    "refuses": ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
    "too large": ("x" * 2**21, "it has 2,097,152 characters"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_one_error(name, monkeypatch):
    monkeypatch.setattr("regard.text.chat._SECONDS", 1)
    source, told = HOSTILE[name]
    started = time.monotonic()
    with pytest.raises(FileError, match=f"model.gguf: the chat template cannot be used: .*({told})"):
        ChatTemplate(source, SPECIALS, "model.gguf").render(CONVERSATIONS["one"])
    assert time.monotonic() - started < 12


@pytest.mark.parametrize("source", ["", "{# nothing #}"])
def test_a_template_that_makes_an_empty_text_is_named(source):
    with pytest.raises(FileError, match=r"model.gguf: the chat template cannot be used: it is empty, or"):
        ChatTemplate(source, SPECIALS, "model.gguf").render(CONVERSATIONS["one"])


def test_messages_that_are_none_are_named():
    template = ChatTemplate(SMOLLM2)
    with pytest.raises(DtypeError, match="messages: expected a list of messages, got str"):
        template.render("Hello")
    with pytest.raises(ArgumentError, match="message 0 has the content None"):
        template.render([{"role": "user"}])
    with pytest.raises(DtypeError, match="message 0 is a str"):
        template.render(["Hello"])
    with pytest.raises(ArgumentError, match="there is no message"):
        template.render([])


def test_the_template_of_a_folder(tmp_path):
    assert template_of_folder(tmp_path, {}) is None
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text(json.dumps({"chat_template": "one"}))
    assert template_of_folder(tmp_path, {}).source == "one"
    listed = [{"name": "tool_use", "template": "two"}, {"name": "default", "template": "three"}]
    settings.write_text(json.dumps({"chat_template": listed}))
    assert template_of_folder(tmp_path, {}).source == "three"
    settings.write_text(json.dumps({"chat_template": 7}))
    with pytest.raises(FileError, match="chat_template: expected a text, got int"):
        template_of_folder(tmp_path, {})
    (tmp_path / "chat_template.jinja").write_text("four", encoding="utf-8")
    assert template_of_folder(tmp_path, {}).source == "four"


@pytest.mark.slow
def test_the_template_of_smollm2_is_rendered_as_transformers_does():
    transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")
    from regard.models.gguf_files import GGUFFile

    path = real_model("REGARD_SMOLLM2", "the GGUF file of SmolLM2-135M-Instruct")
    theirs = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    source = GGUFFile(path).metadata["tokenizer.chat_template"]
    for messages in CONVERSATIONS.values():
        expected = theirs.apply_chat_template(
            messages, chat_template=source, tokenize=False, add_generation_prompt=True
        )
        assert ChatTemplate(source).render(messages) == expected
