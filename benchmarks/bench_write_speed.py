"""Tokens per second of greedy decoding, beside Hugging Face's ``generate`` on the same weights, threads and dtype.

    REGARD_STORIES15M=stories15M.bin REGARD_SMOLLM2=model.gguf python benchmarks/bench_write_speed.py [threads]

Models whose variable is not set are left out. Each program writes the same number of tokens after a prompt of 16 and of
512 tokens. The time to read the prompt, which is that of writing one token, is subtracted. The programs run in turns,
and the fastest turn of each counts.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import transformers
from harness import Line, at_least, seconds, show

from regard.decoding import DecodingOptions, stream_tokens
from regard.models import LanguageModel, load_language_model
from regard.models.int8 import quantize_int8

MODELS = {"stories15M": "REGARD_STORIES15M", "SmolLM2-135M": "REGARD_SMOLLM2"}
PROMPTS, TURNS = (16, 512), 4
TOKENS = {"stories15M": 65, "SmolLM2-135M": 17}


def peer(model: LanguageModel) -> Any:
    """Return a LlamaForCausalLM with the weights of our model."""
    config = model.config
    theirs: Any = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=config.vocabulary_size,
            hidden_size=config.width,
            intermediate_size=config.feed_forward,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads or config.heads,
            max_position_embeddings=2048,
            rms_norm_eps=config.norm_epsilon,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": config.rotary_base},
        )
    ).eval()
    decoder: Any = model.decoder
    with torch.no_grad():
        theirs.model.embed_tokens.weight.copy_(decoder.embedding.tokens.weight)
        theirs.model.norm.weight.copy_(decoder.norm.weight)
        for ours, layer in zip(decoder.layers, theirs.model.layers, strict=True):
            up, gate = ours.feed_forward.widen.weight.chunk(2)
            pairs = [(layer.mlp.up_proj, up), (layer.mlp.gate_proj, gate)]
            pairs += [(layer.mlp.down_proj, ours.feed_forward.narrow.weight)]
            pairs += [(layer.input_layernorm, ours.self_norm.weight)]
            pairs += [(layer.post_attention_layernorm, ours.feed_norm.weight)]
            for name in "qkvo":
                weight = getattr(ours.self_attention, f"W_{name}").weight
                pairs.append((getattr(layer.self_attn, f"{name}_proj"), weight))
            for module, weight in pairs:
                module.weight.copy_(weight)
    theirs.generation_config.eos_token_id = None
    return theirs


def generated(model: Any, prompt: list[int], count: int) -> Callable[[], list[int]]:
    """Return a program that generates with Hugging Face."""

    @torch.inference_mode()
    def run() -> list[int]:
        text = torch.tensor([prompt])
        options = {"do_sample": False, "min_new_tokens": count, "max_new_tokens": count, "pad_token_id": 0}
        return model.generate(text, attention_mask=torch.ones_like(text), **options)[
            0, len(prompt) :
        ].tolist()

    return run


def streamed(model: LanguageModel, prompt: list[int], count: int) -> Callable[[], list[int]]:
    """Return a program that writes with Regard."""
    options = DecodingOptions(beams=1, max_length=count)
    return lambda: [one.token for one in stream_tokens(model, prompt, options)]


def compare(
    name: str, model: LanguageModel, theirs: Any, dtype: str, length: int
) -> tuple[list[Line], float]:
    """Return the rows of one model, dtype and length of the prompt, and the milliseconds of one of our tokens."""
    torch.manual_seed(0)
    prompt, count = torch.randint(3, model.config.vocabulary_size, (length,)).tolist(), TOKENS[name]
    ours_text, their_text = streamed(model, prompt, count)(), generated(theirs, prompt, count)()
    programs = [streamed(model, prompt, 1), streamed(model, prompt, count)]
    programs += [generated(theirs, prompt, 1), generated(theirs, prompt, count)]
    first, whole, their_first, their_whole = seconds(*programs, turns=TURNS)
    ours, peers = (whole - first) / (count - 1), (their_whole - their_first) / (count - 1)
    same = "same text" if ours_text == their_text else "other text"
    detail = f"({1 / ours:.1f} and {1 / peers:.1f} tokens/s, {same})"
    row = at_least(f"{name} {dtype}, prompt of {length}", "generate", peers / ours, 2.0, detail)
    return [row], 1000 * ours


def main() -> None:
    """Print the table, and the options bfloat16 and int8 beside float32."""
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else torch.get_num_threads()
    torch.set_num_threads(threads)
    lines: list[Line] = []
    for name, variable in MODELS.items():
        if not os.environ.get(variable):
            print(f"{variable} is not set: {name} is left out")
            continue
        model = load_language_model(os.environ[variable])
        theirs = peer(model)
        for dtype in ("float32", "bfloat16"):
            if dtype == "bfloat16":
                model, theirs = copy.deepcopy(model).to(torch.bfloat16), theirs.to(torch.bfloat16)
            for length in PROMPTS:
                rows, spent = compare(name, model, theirs, dtype, length)
                lines += rows
                print(f"{name} {dtype}, prompt of {length}: {spent:.2f} ms a token", flush=True)
        small = quantize_int8(load_language_model(os.environ[variable]))
        for length in PROMPTS:
            prompt, count = list(range(3, 3 + length)), TOKENS[name]
            programs = [streamed(small, prompt, 1), streamed(small, prompt, count)]  # type: ignore[arg-type]
            first, whole = seconds(*programs, turns=TURNS)
            spent = 1000 * (whole - first) / (count - 1)
            print(f"{name} int8, prompt of {length}: {spent:.2f} ms a token", flush=True)
    show(f"Greedy decoding, {threads} threads", lines)


if __name__ == "__main__":
    main()
