"""Tests of attn_implementation="regard" with every Hugging Face architecture, exact or refused."""

import importlib.util
import sys

import pytest
import torch

from regard.errors import ArgumentError

transformers = pytest.importorskip("transformers", reason="needs  pip install 'regard[hf]'")

from regard.integrations import huggingface as hf  # noqa: E402
from regard.integrations import huggingface_architectures as hf_architectures  # noqa: E402
from support import hf_architectures as zoo  # noqa: E402

ROUTED = {
    "bert": set(),
    "llama": set(),
    "t5": {"position_bias"},
    "gemma2": {"softcap"},
    "gpt_oss": {"s_aux"},
    "deepseek_v32": {"indices"},
    "hy_v4": {"indices", "s_aux"},
    "minimax_m3_vl_text": {"block_indices"},
    "longt5": {"position_bias"},
    # Its decoder does not say that it is causal.
    "nllb-moe": set(),
}
"""Architectures, and the keywords with which they call attention."""
REFUSED = {
    "codegen": "not routed",
    "xglm": "not routed",
    "bloom": "not routed",
    "falcon": "FALCON_ATTENTION_CLASSES",
    "gptj": "GPTJ_ATTENTION_CLASSES",
    "gpt_neo": "GPT_NEO_ATTENTION_CLASSES",
    "sam_vision_model": "SAM_VISION_ATTENTION_CLASSES",
    "bigbird_pegasus": "computes its attention itself",
}


@pytest.fixture(autouse=True)
def _quiet():
    transformers.logging.set_verbosity_error()


def runs(name: str) -> tuple[torch.nn.Module, dict, list[torch.Tensor], bool]:
    """Return the eager model of an architecture, its inputs and outputs, and whether it has the wider sizes."""
    for wider in (False, True):
        try:
            model = zoo.build(name, "eager", wider)
            given = zoo.inputs(model)
            return model, given, zoo.outputs(model, given), wider
        except Exception as error:
            # Configs ask for packages, sizes and inputs of their own.
            reason = f"{type(error).__name__}: {error}"
    pytest.skip(f"{name} cannot be built from a small config: {reason[:200]}")


def check(name: str) -> None:
    eager, given, expected, wider = runs(name)
    try:
        model = zoo.build(name, "regard", wider)
    except ArgumentError as error:
        assert 'attn_implementation: "regard" cannot be used by' in str(error)  # noqa: PT017
        assert str(error).endswith('use "eager"')  # noqa: PT017
        return
    model.load_state_dict(eager.state_dict())
    found = zoo.outputs(model, given)
    if zoo.difference(found, expected, given) > 1e-4:  # where its own two forms differ
        fused = zoo.build(name, "sdpa", wider)
        fused.load_state_dict(eager.state_dict())
        assert zoo.difference(found, zoo.outputs(fused, given), given) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.names())
def test_every_architecture_is_right_or_refused(name):
    check(name)


@pytest.mark.parametrize("name", ROUTED)
def test_keywords_that_change_attention_are_honoured(name, monkeypatch):
    keywords: set[str] = set()

    def spy(*arguments, **options):
        keywords.update(key for key, value in options.items() if value is not None)
        return hf.attention_forward(*arguments, **options)

    monkeypatch.setitem(transformers.AttentionInterface._global_mapping, "regard", spy)
    eager, given, expected, wider = runs(name)
    model = zoo.build(name, "regard", wider)
    model.load_state_dict(eager.state_dict())
    assert zoo.difference(zoo.outputs(model, given), expected, given) < 1e-5
    assert keywords >= ROUTED[name]


@pytest.mark.parametrize("name", REFUSED)
def test_architectures_that_are_not_routed_are_refused_when_built(name):
    *_, wider = runs(name)
    with pytest.raises(ArgumentError, match=f'"regard" cannot be used by .*{REFUSED[name]}.*use "eager"'):
        zoo.build(name, "regard", wider)


def test_a_model_inside_another_is_refused_too():
    with pytest.raises(ArgumentError, match="BARK_ATTENTION_CLASSES"):
        transformers.BarkModel._from_config(transformers.BarkConfig(), attn_implementation="regard")


@pytest.mark.parametrize("name", ["gemma2", "gpt_oss"])
def test_weights_are_those_of_the_eager_mode(name):
    eager, given, _, wider = runs(name)
    model = zoo.build(name, "regard", wider)
    model.load_state_dict(eager.state_dict())
    real = given["attention_mask"].bool()
    with torch.no_grad():
        found, expected = (x(**given, output_attentions=True).attentions for x in (model, eager))
    for got, want in zip(found, expected, strict=True):
        assert got.shape == want.shape
        assert ((got - want).abs() * real[:, None, :, None]).max() < 1e-5


@pytest.mark.parametrize("kind", ["Gemma2ForCausalLM", "GptOssForCausalLM", "DeepseekV32ForCausalLM"])
def test_generation_is_that_of_the_eager_mode(kind):
    model_type = {"Gemma2": "gemma2", "GptOss": "gpt_oss", "DeepseekV32": "deepseek_v32"}[kind[:-11]]
    made = []
    for how in ("eager", "regard"):
        torch.manual_seed(0)
        made.append(
            getattr(transformers, kind)._from_config(zoo.small_config(model_type), attn_implementation=how)
        )
    made[1].load_state_dict(made[0].state_dict())
    given = torch.randint(3, 90, (2, 5), generator=torch.Generator().manual_seed(0))
    out = []
    for model in made:
        model.generation_config.pad_token_id, model.generation_config.eos_token_id = 0, None
        result = model.eval().generate(
            given, max_new_tokens=6, do_sample=False, output_logits=True, return_dict_in_generate=True
        )
        out.append(torch.stack(result.logits))
    torch.testing.assert_close(out[1], out[0], rtol=1e-4, atol=1e-5)


def test_an_unknown_keyword_is_refused():
    q, k, v = torch.randn(3, 1, 2, 5, 4)
    module = torch.nn.Identity()
    with pytest.raises(
        ArgumentError, match='"regard" does not compute top_k_keys, window_table: use "eager"'
    ):
        hf.attention_forward(module, q, k, v, None, top_k_keys=3, window_table=torch.ones(2), use_cache=True)
    # Packed sequences, and no mask between them.
    with pytest.raises(ArgumentError, match="cu_seq_lens_q"):
        hf.attention_forward(module, q, k, v, None, cu_seq_lens_q=torch.tensor([0, 2, 5]))
    assert hf.attention_forward(module, q, k, v, None, top_k_keys=None)[0].shape == (1, 5, 2, 4)
    with pytest.raises(ArgumentError, match="cannot tell the size of the blocks of a Identity"):
        hf.attention_forward(module, q, k, v, None, block_indices=torch.zeros(1, 2, 5, 1, dtype=torch.long))


FUTURE = """
from torch import nn
class FutureAttention(nn.Module):
    def forward(self, q, k, v, mask):
        attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager)
        return attention_interface(self, q, k, v, mask, scaling=self.scaling, ring_buffer=self.ring)
"""


def test_an_architecture_with_an_unknown_keyword_is_refused_when_built(tmp_path, monkeypatch):
    path = tmp_path / "modeling_future.py"
    path.write_text(FUTURE)
    spec = importlib.util.spec_from_file_location("modeling_future", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "modeling_future", module)
    spec.loader.exec_module(module)
    with pytest.raises(ArgumentError, match="by FutureAttention: its attention is given ring_buffer"):
        hf_architectures.check_architecture(module.FutureAttention)
    made = type("Made", (), {"__module__": "nowhere"})
    with pytest.raises(ArgumentError, match="by Made: its source code cannot be read"):
        hf_architectures.check_architecture(made)


def test_the_implementation_can_be_changed_later():
    eager, given, expected, _ = runs("bert")
    eager.set_attn_implementation("regard")
    assert eager.config._attn_implementation == "regard"
    assert zoo.difference(zoo.outputs(eager, given), expected, given) < 1e-5
    refused, *_ = runs("bigbird_pegasus")
    with pytest.raises(ArgumentError, match="BigBirdPegasusModel"):
        refused.set_attn_implementation("regard")


def test_registering_twice_checks_once():
    chosen = transformers.PreTrainedModel.get_correct_attn_implementation
    hf.register()
    assert transformers.PreTrainedModel.get_correct_attn_implementation is chosen


def test_the_former_place_of_the_integration_raises_an_error_that_names_the_new_one():
    with pytest.raises(
        ImportError, match="regard.capture.hf has moved: use .import regard.integrations.huggingface"
    ):
        importlib.import_module("regard.capture.hf")
